"""Benchmarks in Chinese: CLUE, FewCLUE, reading comprehension, exams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rolecall.sources.datasets.conversions import LETTERS, drop_columns
from rolecall.sources.datasets.formats import FileOptions
from rolecall.sources.datasets.layouts import Entry, Loader, SplitFile, expand_rows, layout, read_json
from rolecall.sources.datasets.rows import WHOLE, ListRows, Row, Splits

_JSONL = FileOptions(format='jsonl')
_NLI = {'entailment': 'A', 'contradiction': 'B', 'neutral': 'C'}
_TRUE_FALSE = {'true': 'A', 'false': 'B'}
_NEWS = {
    'news_agriculture': '农业新闻',
    'news_travel': '旅游新闻',
    'news_game': '游戏新闻',
    'news_tech': '科技类别公司新闻',
    'news_sports': '体育类别新闻',
    'news_edu': '初升高教育新闻',
    'news_entertainment': '娱乐圈新闻',
    'news_finance': '投资资讯',
    'news_military': '军事类别常识',
    'news_car': '车辆新闻',
    'news_house': '楼市新闻',
    'news_world': '环球不含中国类别新闻',
    'news_culture': '书籍文化历史类别新闻',
    'news_story': '故事类别新闻',
    'news_stock': '股票市场类别新闻',
}
"""The categories of TNEWS, in the order of their letters, as its configs call them."""


def _lettered_label(labels: Mapping[str, str] | str) -> Any:
    """Turn a label into its letter: by name, or by number where `labels` is a text of letters."""
    if isinstance(labels, str):
        return lambda row: {**row, 'label': labels[int(row['label'])]}
    return lambda row: {**row, 'label': labels[row['label']]}


def _keep_labelled(row: Row) -> bool:
    return bool(row['label'] != '-')


def chid(row: Row) -> Row:
    filled = [row['content'].replace('#idiom#', candidate) for candidate in row['candidates']]
    return {**row, **{f'content{number}': text for number, text in enumerate(filled)}}


def chid_v2(row: Row) -> Row:
    candidates = dict(zip('ABCDEFG', row['candidates'], strict=False))
    return {'content': row['content'].replace('#idiom#', '______'), **candidates, 'answer': 'ABCDEFG'[row['answer']]}


def cluewsc(row: Row) -> Row:
    target, text = row['target'], list(row['text'])
    text[target['span2_index']] = target['span1_text']
    spans = {'span1': target['span1_text'], 'span2': target['span2_text']}
    answer = int(str(row['label']).lower() == 'true')
    return {**drop_columns(row, 'target'), 'new_text': ''.join(text), 'answer': answer, **spans}


def cluewsc_v2(row: Row) -> Row:
    target = row['target']
    label = _TRUE_FALSE[str(row['label']).lower()]
    return {'span1': target['span1_text'], 'span2': target['span2_text'], 'text': row['text'], 'label': label}


def tnews(row: Row) -> Row:
    return {**row, 'label_desc2': _NEWS[row['label_desc']]}


def tnews_v2(row: Row) -> Row:
    return {'sentence': row['sentence'], 'label_desc2': LETTERS[list(_NEWS).index(row['label_desc'])]}


def csl(row: Row) -> Row:
    return {**row, 'keywords': '，'.join(row['keyword'])}


def csl_v2(row: Row) -> Row:
    return {'abst': row['abst'], 'keywords': '，'.join(row['keyword']), 'label': 'AB'[int(row['label'])]}


def eprstmt_v2(row: Row) -> Row:
    return {'sentence': row['sentence'], 'label': {'Positive': 'A', 'Negative': 'B'}[row['label']]}


def paragraphs(row: Row, number: int) -> Iterator[Row]:
    """The questions of one article in SQuAD's layout, each answer once."""
    for paragraph in row['paragraphs']:
        for question in paragraph['qas']:
            answers = list(dict.fromkeys(answer['text'] for answer in question['answers']))
            yield {'context': paragraph['context'], 'question': question['question'], 'answers': answers}


def _c3(joint: str, filler: str | None, *, letters: bool) -> Loader:
    def load(path: Path, entry: Entry) -> Splits:
        """One JSON file, named by path."""
        rows: list[Row] = []
        for texts, questions, *_ in read_json(path):
            content = joint.join(''.join(text) for text in texts)
            for question in questions:
                choices = list(question['choice'])
                label = choices.index(question['answer'])
                choices += [choices[0] if filler is None else filler] * (4 - len(choices))
                numbered = {f'choice{at}': choice for at, choice in enumerate(choices)}
                answer = {'label': LETTERS[label]} if letters else {'choices': choices, 'label': label}
                rows.append({'content': content, 'question': question['question'], **numbered, **answer})
        return {WHOLE: ListRows(rows)}

    return load


def _gaokao(path: Path, entry: Entry) -> Splits:
    """The file `filename` below path."""
    name = str(entry.get('filename') or '').lstrip('/')
    return layout({WHOLE: name.replace('{', '{{').replace('}', '}}')} if name else {WHOLE: SplitFile()})(path, entry)


def finance_iq(row: Row) -> Row:
    values = list(row.values())
    return dict(zip(('question', 'A', 'B', 'C', 'D', 'answer'), values[1:7], strict=True))


def xiezhi(row: Row, number: int) -> Iterator[Row]:
    options = row['options'].removesuffix('"\n').split('\n')
    if len(options) == 4:
        labels = sorted(row.get('labels') or row['label'], key=len, reverse=True)
        yield {
            'question': row['question'],
            **dict(zip('ABCD', options, strict=True)),
            'labels': labels,
            'answer': LETTERS[options.index(row['answer'])],
        }


def _xiezhi(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}/xiezhi.v1.json, and those of xiezhi_train_chn or xiezhi_train_eng."""
    train = 'xiezhi_train_chn' if 'chn' in str(entry.get('name')) else 'xiezhi_train_eng'
    files = {'train': f'{train}/xiezhi.v1.json', 'test': '{name}/xiezhi.v1.json'}
    return expand_rows(layout(files, options=_JSONL), xiezhi)(path, entry)


def _lcsts(path: Path, entry: Entry) -> Splits:
    """Files below path: test.src.txt and test.tgt.txt, line by line."""
    texts = layout({'content': 'test.src.txt', 'abst': 'test.tgt.txt'}, options=FileOptions(format='text'))(path, entry)
    pairs = zip(texts['content'], texts['abst'], strict=False)
    return {
        WHOLE: ListRows([{'content': text['text'].strip(), 'abst': summary['text'].strip()} for text, summary in pairs])
    }


_FILE: Mapping[str, SplitFile] = {WHOLE: SplitFile()}

CHINESE: dict[str, Loader] = {
    'AFQMCDatasetV2': layout(_FILE, _lettered_label('AB'), options=_JSONL),
    'bustumDataset_V2': layout(_FILE, _lettered_label('AB'), options=_JSONL),
    'C3Dataset': _c3(' ', None, letters=False),
    'C3Dataset_V2': _c3('', '[NULL]', letters=True),
    'CharmDataset': layout({WHOLE: '{name}.json'}),
    'CHIDDataset': layout(_FILE, chid, options=_JSONL),
    'CHIDDatasetV2': layout(_FILE, chid_v2, options=_JSONL),
    'CluewscDataset': layout(_FILE, cluewsc, options=_JSONL),
    'CluewscDatasetV2': layout(_FILE, cluewsc_v2, options=_JSONL),
    'CMNLIDataset': layout(_FILE, options=_JSONL, keep=_keep_labelled),
    'CMNLIDatasetV2': layout(_FILE, _lettered_label(_NLI), options=_JSONL, keep=_keep_labelled),
    'CMRCDataset': expand_rows(layout(_FILE), paragraphs),
    'CslDataset': layout(_FILE, csl, options=_JSONL),
    'CslDatasetV2': layout(_FILE, csl_v2, options=_JSONL),
    'DRCDDataset': expand_rows(layout(_FILE), paragraphs),
    'EprstmtDatasetV2': layout(_FILE, eprstmt_v2, options=_JSONL),
    'FinanceIQDataset': layout({split: f'{split}/{{name}}.csv' for split in ('dev', 'test')}, finance_iq),
    'GaokaoBenchDataset': _gaokao,
    'LCSTSDataset': _lcsts,
    'OCNLIDatasetV2': layout(_FILE, _lettered_label(_NLI), options=_JSONL, keep=_keep_labelled),
    'TNewsDataset': layout(_FILE, tnews, options=_JSONL),
    'TNewsDatasetV2': layout(_FILE, tnews_v2, options=_JSONL),
    'XiezhiDataset': _xiezhi,
}
