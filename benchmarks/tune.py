"""Tokens per second of `rolecall model tune`'s trainer against TRL's SFTTrainer with the same settings, in one process.

    PYTHONPATH=src python benchmarks/tune.py [--rows 960] [--batch 16] [--lora 16] [--size 1b] [--json FILE]

Random weights (those of `gpu_perplexity.py`) and random ids with labels, tokenized beforehand, so both trainers get the
same rows: prompts of 200 to 1,000 tokens, answers of 20 to 120. Same optimiser (AdamW, fused on CUDA), bf16 autocast,
LoRA of the same rank on all linear layers (or all weights with --lora 0), no packing, no gradient checkpointing. One
epoch each; the first updates are left out. Tokens are those of the rows, padding not counted.

Needs torch, transformers, peft, trl and datasets. A machine without network can be given them in a folder:
`--packages FOLDER` is put on the path.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from array import array
from pathlib import Path
from typing import Any

given_packages = sys.argv[sys.argv.index('--packages') + 1] if '--packages' in sys.argv else None
if given_packages:
    sys.path.append(given_packages)  # after the machine's own

import torch  # noqa: E402
import transformers  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parent.parent / 'tests'))

from gpu_perplexity import SIZES, let_go, random_model, write  # noqa: E402
from rolecall.apps.sft.training_file import IGNORED  # noqa: E402
from rolecall.apps.tuning.sequences import TokenSequence  # noqa: E402
from rolecall.apps.tuning.trainer import Trainer  # noqa: E402
from rolecall.apps.tuning.tune_settings import TuneSettings  # noqa: E402

RATE = 2e-4
WARM_UP = 5
"""Updates that are not timed."""


def random_rows(count: int, vocabulary: int, *, short: bool) -> list[TokenSequence]:
    chance = random.Random(0)
    rows = []
    for _ in range(count):
        prompt, answer = (chance.randint(20, 60), 10) if short else (chance.randint(200, 1000), chance.randint(20, 120))
        ids = [chance.randrange(10, vocabulary) for _ in range(prompt + answer)]
        rows.append(TokenSequence(array('i', ids), array('i', [IGNORED] * prompt + ids[prompt:])))
    return rows


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def run_ours(size: str, device: str, rows: list[TokenSequence], batch: int, lora: int | None) -> dict[str, float]:
    settings = TuneSettings(lora=lora, epochs=1, batch_size=batch, learning_rate=RATE, held_out=0)
    trainer = Trainer(random_model(size, device, weights_dtype(lora, device)), rows, settings)
    tokens, began = 0, 0.0
    for step in trainer.steps():
        if step.number <= WARM_UP:
            wait()
            began = time.perf_counter()
        else:
            tokens += step.tokens
    wait()
    return figures(tokens, time.perf_counter() - began, step.loss)


def run_trl(size: str, device: str, rows: list[TokenSequence], batch: int, lora: int | None) -> dict[str, float]:
    import trl
    from datasets import Dataset
    from peft import LoraConfig

    from small_models import make_tokenizer

    class Clock(transformers.TrainerCallback):
        began = ended = 0.0

        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            wait()
            self.ended = time.perf_counter()
            if state.global_step <= WARM_UP:
                self.began = self.ended

    with tempfile.TemporaryDirectory() as folder:
        tokenizer = transformers.AutoTokenizer.from_pretrained(make_tokenizer(Path(folder), bos=False))
        config = trl.SFTConfig(
            output_dir=folder,
            num_train_epochs=1,
            per_device_train_batch_size=batch,
            learning_rate=RATE,
            warmup_steps=2,
            lr_scheduler_type='linear',
            weight_decay=0.0,
            max_length=None,
            packing=False,
            bf16=device == 'cuda',
            use_cpu=device == 'cpu',
            gradient_checkpointing=False,
            optim='adamw_torch_fused' if device == 'cuda' else 'adamw_torch',
            logging_steps=10,
            save_strategy='no',
            report_to=[],
            disable_tqdm=True,
        )
        data = Dataset.from_list([{'input_ids': list(row.ids), 'labels': list(row.labels)} for row in rows])
        adapters = LoraConfig(r=lora, lora_alpha=2 * lora, target_modules='all-linear') if lora else None
        clock = Clock()
        trainer = trl.SFTTrainer(
            model=random_model(size, device, weights_dtype(lora, device)).model,
            args=config,
            train_dataset=data,
            processing_class=tokenizer,
            peft_config=adapters,
            callbacks=[clock],
        )
        trainer.train()
        timed_rows = len(rows) - WARM_UP * batch  # rows come in random order, so their mean length stands for each
        tokens = sum(len(row.ids) for row in rows) * timed_rows / len(rows)
        losses = [line['loss'] for line in trainer.state.log_history if 'loss' in line]
        return figures(tokens, clock.ended - clock.began, losses[-1] if losses else float('nan'))


def weights_dtype(lora: int | None, device: str) -> torch.dtype:
    return torch.bfloat16 if lora and device == 'cuda' else torch.float32


def figures(tokens: float, seconds: float, loss: float) -> dict[str, float]:
    memory = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
    return {'tokens_per_second': tokens / seconds, 'seconds': seconds, 'loss': float(loss), 'gib': memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rows', type=int, default=960)
    parser.add_argument('--batch', type=int, default=16)
    parser.add_argument('--lora', type=int, default=16, help='0 trains all weights')
    parser.add_argument('--size', choices=SIZES, default='1b')
    parser.add_argument('--device', choices=('cpu', 'cuda'), default='cuda' if torch.cuda.is_available() else 'cpu')
    parser.add_argument('--packages', metavar='FOLDER')
    parser.add_argument('--json', type=Path)
    given = parser.parse_args()
    where = torch.cuda.get_device_name() if given.device == 'cuda' else 'CPU'
    print(f'torch {torch.__version__}, transformers {transformers.__version__}, {where}')
    rows = random_rows(given.rows, 128256 if given.size == '1b' else 1000, short=given.size == 'tiny')
    found = {}
    for name, way in {'rolecall': run_ours, 'TRL': run_trl}.items():
        let_go()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        found[name] = way(given.size, given.device, rows, given.batch, given.lora or None)
        print(f'{name:10}', ', '.join(f'{key} {value:,.2f}' for key, value in found[name].items()), flush=True)
    ratio = found['rolecall']['tokens_per_second'] / found['TRL']['tokens_per_second']
    print(f'rolecall is {ratio:.2f} times as fast')
    write([{'name': name, **values} for name, values in found.items()], given.json)


if __name__ == '__main__':
    main()
