"""Errors, notes, progress and tables in Chinese, from the English texts; loaded only when Chinese is asked for."""

from __future__ import annotations

from collections.abc import Mapping

ARGPARSE: Mapping[str, str] = {
    'the following arguments are required: {}.': '缺少参数：{}。',
    'invalid choice: {} (choose from {}).': '无效的取值 {}（可选：{}）。',
    'expected one argument.': '需要一个值。',
    'expected at least one argument.': '至少需要一个值。',
    'expected {} arguments.': '需要 {} 个值。',
    'not allowed with argument {}.': '不能与 {} 同时使用。',
    'ambiguous option: {} could match {}.': '选项 {} 不明确，可能是 {}。',
    'ignored explicit argument {}.': '该选项不带值，却给了 {}。',
}
"""What argparse itself says."""

MESSAGES: Mapping[str, str] = {
    **ARGPARSE,
    '`{} --help` lists the options.': '`{} --help` 会列出所有选项。',
    'unknown option: {}': '未知选项：{}',
    'shows prompts and has no model to ask. Use {} with view, lint or export; --model asks a model.': (
        '只用于查看提示词，没有可调用的模型。请在 view、lint 或 export 中使用 {}；--model 指定要调用的模型。'
    ),
    'expected a whole number of at least 1, got {}.': '需要不小于 1 的整数，得到 {}。',
    'expected a non-negative integer, got {}.': '需要非负整数，得到 {}。',
    'expected a number of at least 0, got {}.': '需要不小于 0 的数，得到 {}。',
    '{} is not a list of choices. Write it like A,B,C,D.': '{} 不是选项列表。请写成 A,B,C,D 的形式。',
    'no model is given: asking the embedded {}. Choose another with --model.': (
        '未指定模型：使用内置的 {}。可用 --model 选择其他模型。'
    ),
    'choices are compared by log-probability; --ask generate reads them from a generated reply.': (
        '按对数概率比较各选项；--ask generate 则从生成的回复中读取。'
    ),
    '{} can compare choices by log-probability, but {} cannot: all are asked to generate. Run {} alone to compare.': (
        '{} 可以按对数概率比较各选项，但 {} 不能：全部改为生成。单独运行 {} 即可比较。'
    ),
    'no answer column is given (--answer): replies are stored, and not scored.': (
        '未指定答案列（--answer）：回复会保存，但不评分。'
    ),
    'not in the prompt: {} (a template of your own can name them).': '未写入提示词的列：{}（可在自己的模板中写出）。',
    'Wrote {}: question {}, answer {}, scored by {}.': '已写入 {}：问题列 {}，答案列 {}，按 {} 评分。',
    'Wrote {}: question {}, no answer column found: not scored.': '已写入 {}：问题列 {}，没有找到答案列，不评分。',
    'Wrote {}': '已写入 {}',
    'Next: rolecall view {}, then rolecall run {}': '下一步：rolecall view {}，然后 rolecall run {}',
    'no row has the column {}.': '没有任何一行含有列 {}。',
    'lint error: {}  {}: {}': '检查错误：{}  {}：{}',
    '{} lint errors; `rolecall lint` shows remedies.': '{} 条检查错误；`rolecall lint` 会给出改法。',
    '{} lint error; `rolecall lint` shows remedies.': '{} 条检查错误；`rolecall lint` 会给出改法。',
    'Nothing was sent (dry run).': '没有发送任何请求（试运行）。',
    'Interrupted. Finished rows are kept; resume with: {}': '已中断。已完成的行会保留；继续运行：{}',
    'Finished rows are kept; fix the problem and resume with: {}': '已完成的行会保留；解决问题后继续运行：{}',
    '{} could not be run: see above.': '{} 无法运行：见上文。',
    '{} rows failed; retry with: {}': '{} 行失败；重试：{}',
    '{} rows cut by the server. With a longer context: {}': '{} 行被服务器截断。加长上下文后：{}',
    '{} row failed; retry with: {}': '{} 行失败；重试：{}',
    '{} answers not judged; retry with: {}': '{} 个答案未经评判；重试：{}',
    '{} answer not judged; retry with: {}': '{} 个答案未经评判；重试：{}',
    '{} rows without a verdict in the reply of the judge.': '{} 行的评判回复中没有结论。',
    '{} row without a verdict in the reply of the judge.': '{} 行的评判回复中没有结论。',
    '{} lint errors ignored.': '忽略了 {} 条检查错误。',
    '{} lint error ignored.': '忽略了 {} 条检查错误。',
    '{} lint warnings ({}); rolecall lint shows remedies.': '{} 条检查警告（{}）；rolecall lint 会给出改法。',
    '{} lint warning ({}); rolecall lint shows remedies.': '{} 条检查警告（{}）；rolecall lint 会给出改法。',
    'Results are in {}.': '结果保存在 {}。',
    'Every row: {}': '查看每一行：{}',
    'WARNING: {}': '警告：{}',
    '{}: every reply is empty. {}': '{}：所有回复都是空的。{}',
    '{}: every row has the same answer, {}.': '{}：所有行的答案相同：{}。',
    'Look at a prompt with rolecall view; an instruct model needs its chat template.': (
        '用 rolecall view 查看提示词；指令模型需要它的对话模板。'
    ),
    '{} errors found before the run; nothing was sent.': '运行前发现 {} 个错误；没有发送任何请求。',
    '{} error found before the run; nothing was sent.': '运行前发现 {} 个错误；没有发送任何请求。',
    'Correct the config, or run it as it is with --force (force=True).': (
        '请修改配置，或用 --force（force=True）照样运行。'
    ),
    'Did you mean {}? {}': '是不是想写 {}？{}',
    'Did you mean {}?': '是不是想写 {}？',
    'Known: {}. `rolecall config list benchmarks` shows all.': (
        '可用的有：{}。`rolecall config list benchmarks` 会全部列出。'
    ),
    'Known: {}.': '可用的有：{}。',
    'no such file.': '没有这个文件。',
    '{}: no such file.': '{}：没有这个文件。',
    'cannot be read: {}.': '无法读取：{}。',
    'Files of rows end in {}.': '数据文件的扩展名为 {}。',
    '{} is not a file, and no benchmark has this name.': '{} 不是文件，也没有叫这个名字的评测集。',
    '{} applies to a file of rows; a config defines its own.': '{} 只用于数据文件；配置自有其设定。',
    'unknown model {}.': '未知模型 {}。',
    'the config has no models.': '配置中没有模型。',
    '{}: no run found (run.sqlite is missing).': '{}：没有找到运行（缺少 run.sqlite）。',
    'its rows are not on this machine. Put the published files here:': '本机没有它的数据。请把公布的文件放在：',
    'They are published at {} (licence: {}).': '数据公布于 {}（许可证：{}）。',
    'Another folder: --data DIR, or the variable {}.': '换一个目录：--data DIR，或环境变量 {}。',
    "{}: uses the model's own chat template; chat_template=False sends bare text.": (
        '{}：使用模型自带的对话模板；chat_template=False 则发送纯文本。'
    ),
    'warning: {}': '警告：{}',
    '{}: no gold answer in {} of {}: counted as wrong. Is the answer column the right one?': (
        '{0}：有 {1} 行没有标准答案，计为错误。答案列写对了吗？'
    ),
    '{}: no answer was found in any reply. The first reply is {}: is the extraction right?': (
        '{}：没有从任何回复中找到答案。第一条回复是 {}：答案的提取方式对吗？'
    ),
    '{}: no answer is exact, but {} of {} replies contain the gold answer. {}': (
        '{0}：没有完全一致的答案，但 {2} 条回复中有 {1} 条包含标准答案。{3}'
    ),
    "The metric 'contains' accepts that, or extract the answer first.": (
        "指标 'contains' 接受这种情况；也可以先提取答案。"
    ),
    'no answer was found in the reply.': '回复中没有找到答案。',
    '`rolecall runs list` lists run directories.': '`rolecall runs list` 会列出运行目录。',
    '{}: {} of the replies were cut off by max_out_len ({} of {}). Raise max_out_len.': (
        '{0}：{1} 的回复被 max_out_len 截断（{3} 条中的 {2} 条）。请调大 max_out_len。'
    ),
    '{}: {} of the replies are empty ({} of {}).': '{0}：{1} 的回复为空（{3} 条中的 {2} 条）。',
    '{} The run is not finished.': '运行尚未完成。{}',
    '{} beats {} by {} points ({} to {}) on {} rows.': '{} 比 {} 高 {} 分（{} 到 {}），共 {} 行。',
    '{} and {} cannot be told apart on {} rows: they differ by {} points ({} to {}).': (
        '{} 与 {} 在 {} 行上无法区分：相差 {} 分（{} 到 {}）。'
    ),
    '{} is best on {} rows, ahead of {} by {} points ({} to {}).': ('{} 在 {} 行上最好，比 {} 高 {} 分（{} 到 {}）。'),
    '{} and {} share first place: they cannot be told apart on {} rows.': ('{} 与 {} 并列第一：在 {} 行上无法区分。'),
    '{} scores {} [{}, {}] on {} rows of {}.': '{0} 在 {5} 的 {4} 行上得分 {1} [{2}, {3}]。',
    '{} scores {} [{}, {}] on {} row of {}.': '{0} 在 {5} 的 {4} 行上得分 {1} [{2}, {3}]。',
    'no scores yet': '还没有分数',
    'ranking on {} rows that all models have': '所有模型都有的 {} 行上的排名',
    'Intervals of groups are over rows, with the datasets as given.': '分组的区间按数据行计算，数据集视为给定。',
    '{} lines folded into groups; --all shows them.': '{} 行已合并到分组中；--all 显示全部。',
    '{} scores folded into groups: {}': '{} 个分数已合并到分组中：{}',
    'left   {}': '左  {}',
    'right  {}': '右  {}',
    'every row was sent differently (prompt, sampling or model)': '每一行发送的内容都不同（提示词、采样或模型）',
    '{}: {} of {} rows sent differently (prompt, sampling or model)': (
        '{0}：{2} 行中有 {1} 行发送的内容不同（提示词、采样或模型）'
    ),
    '{}: {} rows flipped': '{}：{} 行的判定发生变化',
    '{}: {} row flipped': '{}：{} 行的判定发生变化',
    'the prompt is the same': '提示词相同',
    'and {} other rows': '另有 {} 行',
    'and {} other row': '另有 {} 行',
    '{} against {}, margin {}: {}': '{} 对比 {}，容差 {}：{}',
    'and {} other changes of the prompt': '提示词另有 {} 处变化',
}
"""Whole lines; `{}` stands for what varies. Lines that are not here stay English."""

FACTS: Mapping[str, str] = {
    '#/# rows': '#/# 行',
    '#/# row': '#/# 行',
    '# rows': '# 行',
    '# row': '# 行',
    '# rows/s': '每秒 # 行',
    '# tokens': '# 个 token',
    '# token': '# 个 token',
    '# input tokens': '输入 # 个 token',
    '# input token': '输入 # 个 token',
    'input tokens not known': '输入 token 数未知',
    '# left': '剩余 #',
    '# in flight': '# 个请求进行中',
    '# requests': '# 个请求',
    '# request': '# 个请求',
    '# requests (# known)': '# 个请求（# 个已有回复）',
    '# request (# known)': '# 个请求（# 个已有回复）',
    '# duplicates (not sent)': '# 个重复请求（不再发送）',
    '# duplicate (not sent)': '# 个重复请求（不再发送）',
    '# requests to send': '# 个请求待发送',
    'and # probes': '另有 # 个探测请求',
    '# prompts cut by the server?': '# 个提示词疑被服务器截断',
    'prompt tokens as expected': '提示词 token 数符合预期',
    '# request to send': '# 个请求待发送',
    'at most #': '至多 #',
    'price not known': '价格未知',
    '# of # rows scored': '#/# 行已评分',
    '# of # row scored': '#/# 行已评分',
    '# of # rows scored (# failed)': '#/# 行已评分（# 行失败）',
    '# of # rows scored (# unparsed)': '#/# 行已评分（# 行无法解析）',
    'no score': '没有分数',
    '#/# scored': '#/# 已评分',
    '# failed': '# 行失败',
    '# unparsed': '# 行无法解析',
    '# filtered': '# 行被过滤',
    '# too_long': '# 行过长',
    '# too long': '# 行过长',
    '# truncated_by_server': '# 行被服务器截断',
    '# truncated by the server': '# 行被服务器截断',
    '# thinking_exhausted': '# 行思考超限',
    '# thinking exhausted': '# 行思考超限',
    '# not scored': '# 行未评分',
    '# not asked': '# 行未询问',
    '# % cut': '# % 被截断',
    '# of all': '全部 #',
    '# of finished': '完整回复 #',
    '# % empty': '# % 为空',
    'too few rows to tell (need #)': '数据行太少，无法判断（需要 # 行）',
    'too few rows to tell': '数据行太少，无法判断',
    'not worse': '没有变差',
    'worse': '变差',
    'not measured': '没有测量',
    'TOO FEW ROWS TO TELL': '数据行太少，无法判断',
    'NOT WORSE': '没有变差',
    'WORSE': '变差',
    'NOT MEASURED': '没有测量',
}
"""Pieces of lines of progress and of cells, between commas; `#` stands for a number."""

HEADS: Mapping[str, str] = {
    'dataset': '数据集',
    'model': '模型',
    'metric': '指标',
    'score': '分数',
    'rows': '行数',
    'dataset × model': '数据集 × 模型',
    'model, dataset': '模型、数据集',
    'rank': '名次',
    'mean': '均值',
    'why': '没有答案的原因',
    'outcome': '结果',
    'reason': '原因',
    'where': '位置',
    'tokens': 'token 用量',
    'input': '输入',
    'cached': '缓存命中',
    'cache writes': '缓存写入',
    'output': '输出',
    'reasoning': '思考',
    's/row': '秒/行',
    'US$': '美元',
    'not known': '未知',
    'where time went, in seconds': '时间去向（秒）',
    'requests': '请求数',
    'machine': '机器',
    'computing': '计算',
    'waiting': '等待',
    'rendering': '生成提示词',
    'writing': '写入',
    'left': '左',
    'right': '右',
    'difference': '差值',
    'flipped': '变化',
    'comparisons': '两两比较',
    'against': '对手',
    'win rate': '胜率',
    'rating': '评级',
    'interval': '区间',
    'unparsed': '无法解析',
    'failed': '失败',
    'filtered': '被过滤',
    'too long': '过长',
    'truncated by the server': '被服务器截断',
    'thinking exhausted': '思考超限',
}
"""Heads, titles and fixed words of tables."""
