"""Runs LazyLLM's own tests of its prompt templates and prompt library against rolecall's, and counts them.

python benchmarks/lazyllm_tests.py ../LazyLLM        # a checkout of github.com/LazyAGI/LazyLLM
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = """from rolecall import ChatPrompter
from rolecall.compat.lazyllm import ActorPrompt, DataPrompt
"""
TEMPLATES = 'from rolecall.compat.lazyllm import FewShotPromptTemplate, PromptTemplate\n'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('checkout', type=Path)
    checkout: Path = parser.parse_args().checkout
    with tempfile.TemporaryDirectory() as folder:
        templates = Path(folder, 'lazyllm', 'prompt_templates')
        templates.mkdir(parents=True)
        (templates.parent / '__init__.py').write_text(PACKAGE)
        (templates / '__init__.py').write_text(TEMPLATES)
        actors = checkout / 'lazyllm' / 'prompt_templates' / 'prompts_actor'
        (templates / 'prompts_actor').symlink_to(actors.resolve())
        tests = (checkout / 'tests' / 'basic_tests' / 'Prompt').resolve()
        command = [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', '--rootdir', folder, '--noconftest']
        return subprocess.run([*command, '-o', f'pythonpath={folder}', str(tests)], cwd=folder).returncode


if __name__ == '__main__':
    raise SystemExit(main())
