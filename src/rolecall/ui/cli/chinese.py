"""The help of the command line in Chinese: one catalogue from the English texts, loaded only when it is asked for.

Terms are those of the Chinese documents of OpenCompass, AISBench and LazyLLM.
"""

from __future__ import annotations

from collections.abc import Mapping

from rolecall.ui.cli.options import EXIT_CODES

_EXIT_CODES_ZH = """退出码:
  0    成功（lint：没有需要处理的问题；view --diff：没有差异）
  1    lint：发现需要处理的问题；view --diff：请求不同；run：有数据行失败、
       模型无法访问或裁判没有给出结论；merge：各次运行互相矛盾
  2    配置、数据或命令行无效，或运行前检查发现错误；原因写在 stderr
  3    compare --gate：数据行太少无法判断，或没有测量（0：没有变差，1：变差）；
       collect：批处理尚未结束，或需要提交下一批
  130  被中断
  141  管道断开：读取方关闭了输出"""

_BENCH = {
    'measure how fast a server answers': '测量服务的响应速度',
    'Load a server with the prompts of a config, of rows, or of an exact number of tokens; measure time to first '
    'token, time per output token, inter-token latency, end-to-end latency, throughput and goodput at each level.': (
        '用配置、数据文件或指定 token 数的提示词对服务加压，逐级测量首 token 时延、每 token 时延、token 间时延、'
        '端到端时延、吞吐量和有效吞吐量。'
    ),
    'how the server is loaded': '如何对服务加压',
    'requests as they were recorded': '按记录的时间发送请求',
    'histograms and curves': '直方图和曲线',
    'benchmarks: slower by 5 %?': '性能测试：是否慢了 5 %？',
    'conversations at once, a level each (default: 1 2 4 8 16); with --rate, the most of them': (
        '同时进行的对话数，每个值一级（默认：1 2 4 8 16）；与 --rate 同用时为上限'
    ),
    'conversations started per second, a level each': '每秒开始的对话数，每个值一级',
    'poisson, constant, or a FILE with a column `timestamp` (seconds or dates), and lengths if it has them; --rate '
    'rescales it': 'poisson、constant，或含 `timestamp` 列（秒或日期，可带长度）的文件；--rate 调整其速率',
    'conversations per level (default: 10 per place, at least 100)': '每级的对话数（默认：每个并发 10 个，至少 100）',
    'start nothing after this long in a level': '每级超过这么久后不再开始新对话',
    'conversations before the first level, not measured': '第一级之前的预热对话数，不计入测量',
    'made-up prompts of exactly N tokens instead of rows': '用恰好 N 个 token 的合成提示词代替数据行',
    'replies of exactly N tokens (vLLM, SGLang: ignore_eos)': '回复恰好 N 个 token（vLLM、SGLang：ignore_eos）',
    'off: every prompt begins differently; on: made-up prompts share their first half, rows stay as they are': (
        'off：每个提示词开头都不同；on：合成提示词的前一半相同，数据行保持原样'
    ),
    'whole replies: end-to-end times only': '不使用流式：只有端到端时延',
    'count requests within these limits, in ms: ttft:200 tpot:50 e2el:5000': (
        '统计在这些限制内的请求，单位毫秒：ttft:200 tpot:50 e2el:5000'
    ),
    'a reply with a longer gap is counted as stalled, not measured': '间隔更长的回复计为停顿，不参与测量',
    'processes that send, if one core is too few': '发送请求的进程数，一个核不够时使用',
    'directory of the result (default: bench/NAME)': '结果目录（默认：bench/名称）',
    'show no progress': '不显示进度',
}

_COMMANDS = {
    'Write the exact prompt every model receives, inspect it, lint it, run it, and score it.': (
        '写出每个模型收到的确切提示词，查看、检查、运行并评分。'
    ),
    EXIT_CODES: _EXIT_CODES_ZH,
    'examples:': '示例:',
    'positional arguments': '位置参数',
    'options': '选项',
    'commands': '命令',
    'show this help message and exit': '显示本帮助并退出',
    "show program's version number and exit": '显示版本号并退出',
    'language of the help: en, zh (default: that of ROLECALL_LANG or the locale)': (
        '帮助的语言：en、zh（默认取 ROLECALL_LANG 或系统区域设置）'
    ),
    'write a first config for a file of rows': '为数据文件生成第一份配置',
    'show what each model will receive': '显示每个模型将收到的内容',
    'find problems before a run': '在运行前找出问题',
    'send every dataset to every model and score the answers': '把每个数据集发给每个模型，并为回答评分',
    'list run directories with their scores': '列出运行目录及其分数',
    'show what the verdicts of a run were read from': '显示一次运行的判定读自回复的何处',
    'Show the rows of a run with the characters of the reply that the answer was read from, the rule, how sure the '
    'reading is, and what else was possible.': (
        '逐行显示答案读自回复的哪些字符、依据的规则、把握程度以及其他可能的答案。'
    ),
    'only this row': '只显示这一行',
    'only rows whose answer was merely inferred': '只显示答案仅为推断的行',
    'only rows whose verdict is another by the other reading': '只显示按另一种读法判定不同的行',
    'show the verdicts of this reading': '显示按这种读法得出的判定',
    'rows that OpenCompass reads differently': 'OpenCompass 读法不同的行',
    'the verdict by our own reading': '按我们自己的读法得出的判定',
    'whose reading of replies makes the score (default: that of the system whose names the config uses)': (
        '按谁的读法计分（默认：配置所用名称所属的系统）'
    ),
    'only this dataset': '只显示这个数据集',
    'only this model': '只显示这个模型',
    'show the scores of a run': '显示一次运行的分数',
    'compare two runs, row by row': '逐行比较两次运行',
    'say why two numbers differ, cause by cause': '逐个原因说明两个分数为什么不同',
    'Say why two scores differ. Stored replies are read and scored as on the other side, so reader, metric, '
    'denominator, rows, failures and cut answers get their exact share without a model. A and B are run '
    'directories, logs of lm-eval, Inspect, OpenCompass or AISBench, configs, or a published number.': (
        '说明两个分数为什么不同。已保存的回复按另一方的方式读取和评分，因此答案读取、指标、分母、样本、失败和被截断的回复无需调用模型就能得到各自的确切份额。'
        'A 和 B 可以是运行目录、lm-eval、Inspect、OpenCompass 或 AISBench 的日志、配置文件，或已发表的分数。'
    ),
    'a run, a log, a config or a number': '运行目录、日志、配置文件或一个分数',
    'what it is compared with': '与之比较的对象',
    'configs of runs whose readers or metrics are code of their own: one for both sides, or one each': (
        '答案读取或指标使用自定义代码的运行的配置文件：双方共用一个，或各给一个'
    ),
    'changed rows shown per cause (default: 3)': '每个原因显示多少条变化的样本（默认 3）',
    'print one JSON object per dataset × model': '每个数据集 × 模型打印一个 JSON 对象',
    'asking the model': '调用模型',
    'write margin, rows, digests and analysis down before the first request (default margin: 2); the report '
    'says whether the run went as planned': (
        '在发出第一个请求之前记下容差、样本、摘要和分析方法（默认容差 2）；报告会说明运行是否按计划进行'
    ),
    'word a run again, ask a few rows again, and name what has changed': (
        '重新生成一次运行的提示词，重新询问几条样本，并列出发生的变化'
    ),
    'Word every request of a run again and compare it with what was sent: identical, or the first character that '
    'differs with its origin. Ask a few rows again where the model can be reached. Name what has changed: '
    'packages, data, tokenizer, weights. Exit code 1 if a request differs, 3 if that cannot be told.': (
        '重新生成一次运行的每个请求，并与当时发送的内容比较：完全相同，或给出第一个不同的字符及其来源。能连上模型时重新询问几条样本。'
        '列出发生的变化：软件包、数据、分词器、权重。退出码 1 表示有请求不同，3 表示无法判断。'
    ),
    'a run directory, or a bundle': '运行目录或打包文件',
    "the run's config, where its model or metric is code of its own": '该运行的配置文件（模型或指标是自定义代码时）',
    'rows of each dataset × model to ask again (default: 5)': '每个数据集 × 模型重新询问多少条样本（默认 5）',
    'write a run as one file that another person can open': '把一次运行写成别人可以打开的单个文件',
    'Pack a run into one file: requests, replies, scores, config, rows and examples. `report`, `compare`, '
    '`explain` and `runs reproduce` open it like a run directory. API keys are never in a run.': (
        '把一次运行打包成单个文件：请求、回复、分数、配置、样本和示例。`report`、`compare`、`explain` 和 '
        '`runs reproduce` 可以像运行目录一样打开它。运行中从不包含 API 密钥。'
    ),
    'default: NAME_OF_RUN.rolecall': '默认：运行名.rolecall',
    "the run's config, where its dataset is code of its own": '该运行的配置文件（数据集是自定义代码时）',
    'pack the pictures, sounds and films that rows name, too': '同时打包样本中提到的图片、声音和视频',
    'pack rows that hold a secret of this environment (default: refuse)': '打包含有本机密钥的样本（默认拒绝）',
    'what asking would cost': '调用需要多少费用',
    'ask the model with one setting changed at a time, from both ends, on a sample of rows; resumes': (
        '在一部分样本上调用模型，从两端出发每次只改一项设置；可续跑'
    ),
    'rows to ask about (default: by the paired test)': '询问多少条样本（默认由配对检验决定）',
    'run directory of the ladder (default: runs/explain-A-B)': '阶梯的运行目录（默认 runs/explain-A-B）',
    'write a page with the waterfall and the rows behind it': '写出一个页面，含瀑布图及其背后的样本',
    'put the runs of several processes together': '合并多个进程的运行结果',
    'open a log of another harness as a run': '把其他评测框架的日志作为一次运行打开',
    'check this machine, or a run directory for damage': '检查本机环境，或检查运行目录是否损坏',
    'write requests, results or training data to a file': '把请求、结果或训练数据写入文件',
    'fine-tune a local model on rows with answers': '用带答案的数据行微调本地模型',
    'open configs and runs in the browser': '在浏览器中打开配置和运行结果',
    'download and fine-tune local models': '下载和微调本地模型',
    'show configs, and list what they can name': '显示配置，并列出其中可用的名称',
    'list the parts that a config can name': '列出配置中可以使用的组件名称',
    'work with run directories, or import logs of other harnesses': ('处理运行目录，或导入其他评测框架的日志'),
    'print a JSON schema of configs, for editors': '输出配置的 JSON Schema，供编辑器使用',
    'print a completion script for a shell': '输出 shell 的自动补全脚本',
}
_INIT = {
    'Look at the columns of a file of rows, ask three questions, and write a commented config that runs.': (
        '查看数据文件的各列，提三个问题，写出一份带注释、可直接运行的配置。'
    ),
    'a file of rows: CSV, JSONL, JSON, TSV, Parquet': '数据文件：CSV、JSONL、JSON、TSV、Parquet',
    'ask nothing: take what the columns look like': '不提问：按各列的样子决定',
    'the config to write (default: NAME.py)': '要写出的配置文件（默认：NAME.py）',
    'what run asks with these options': '与 run 使用这些选项时的提问相同',
    'replace the config if it exists': '配置已存在时覆盖它',
}
_VIEW = {
    'Show requests before anything is sent: the origin of every character, and what was moved, merged or dropped.': (
        '在发送之前显示请求：每个字符的来源，以及哪些内容被移动、合并或丢弃。'
    ),
    'a file of rows instead of a config': '用数据文件代替配置',
    'changes to every dataset, without editing the config': '不改配置文件而调整所有数据集',
    'a benchmark by name, or a task file of lm-evaluation-harness (.yaml, a folder, or lm_eval:NAME)': (
        '评测集名称，或 lm-evaluation-harness 任务文件（.yaml、文件夹、lm_eval:NAME）'
    ),
    'a benchmark by name': '按名称指定评测集',
    'a benchmark by name: rolecall config list benchmarks': '按名称指定评测集（见 rolecall config list benchmarks）',
    'a benchmark, to copy and change': '一个评测集的配置，可复制后修改',
    "of a benchmark: this catalogue's wording": '用于评测集：采用该目录的写法',
    'what `rolecall run NAME` knows, and installed catalogues': '`rolecall run NAME` 认识的名称，以及已安装的目录',
    'only names and descriptions that contain this word': '只列出名称或说明中含有该词的条目',
    'a benchmark by name, a config file, or a file of rows with --template': (
        '评测集名称、配置文件，或配合 --template 的数据文件'
    ),
    'only datasets whose abbr matches, e.g. "bbh-*"': '只选 abbr 匹配的数据集，例如 "bbh-*"',
    'a model by name (smollm2, FILE.gguf, hf:FOLDER, openai/NAME, ollama/NAME, a URL, module:function), '
    'or one of the config by abbr or pattern; may be repeated': (
        '按名称指定模型（smollm2、FILE.gguf、hf:FOLDER、openai/NAME、ollama/NAME、URL、module:function），'
        '或按 abbr（可用通配符）选择配置中的模型；可重复使用'
    ),
    'what the server at the URL calls its model': '该 URL 的服务器上的模型名称',
    'read rows from files: train=FILE test=FILE (or the split names of a task file); for a benchmark by name, the '
    'folder with its rows (default: $ROLECALL_DATA, or data)': (
        '从文件读取数据行：train=FILE test=FILE（或任务文件中的划分名称）；对按名称指定的评测集，为存放其数据的文件夹'
        '（默认：$ROLECALL_DATA 或 data）'
    ),
    'row numbers, from 0': '数据行编号，从 0 开始',
    'the first COUNT rows per dataset': '每个数据集的前 COUNT 行',
    'every matching pair, without a menu': '所有匹配的数据集与模型组合，不显示菜单',
    'only this label': '只显示这个标签',
    'only this turn of a dialogue, from 0': '只显示多轮对话的这一轮，从 0 开始',
    "the model's earlier replies: a JSON list, or one reply per line": '模型之前的回复：JSON 列表，或每行一条',
    'two models, two datasets, or two config files': '两个模型、两个数据集或两个配置文件',
    'make whitespace and special tokens visible': '显示空白字符和特殊 token',
    'token ids and boundaries, counts, and whether they fit': 'token 编号与边界、数量，以及是否放得下',
    'tokenizer.json, model folder, .gguf, or tiktoken:NAME': 'tokenizer.json、模型文件夹、.gguf 或 tiktoken:NAME',
    'print one JSON object per line': '每行输出一个 JSON 对象',
    'print lines without colour (the default in a pipe)': '输出不带颜色的文本（管道中的默认方式）',
    'use colour even in a pipe': '在管道中也使用颜色',
    r"prompt for each row: '{question}\n{answer}'; \n is a line break; given twice, both wordings are asked": (
        r"每行数据的提示词模板：'{question}\n{answer}'；\n 表示换行；给出两次则两种措辞都问"
    ),
    'column that holds the answer; hidden from the prompt': '答案所在的列；不会出现在提示词中',
    'the answers to choose from': '可供选择的答案',
    'exact, contains, number, math, f1, rouge, bleu, … (default: exact)': (
        'exact、contains、number、math、f1、rouge、bleu、……（默认：exact）'
    ),
    'how the answer is read from a reply (rolecall config list postprocessors)': (
        '如何从回复中提取答案（见 rolecall config list postprocessors）'
    ),
    'read the choice from a reply, or compare log-probabilities (default: compare, if every model gives them)': (
        '从生成的回复中读取选项，或比较对数概率即困惑度（默认：所有模型都能给出对数概率时比较）'
    ),
    'encoding of the file (default: utf-8)': '文件编码（默认：utf-8）',
    'what a malformed row does (default: stop)': '遇到格式错误的数据行时停止还是跳过（默认：stop）',
    'model family to write the prompt for, e.g. chatml': '按哪个模型系列的元模板写提示词，例如 chatml',
    'write the prompt as chat API messages': '把提示词写成对话 API 的消息',
    'examples for each row': '每行数据的上下文示例数量',
    'how examples are chosen: fixk, random, bm25, topk, …': '选择示例的检索器：fixk、random、bm25、topk、……',
    'a system message': '系统消息',
    'sampling temperature': '采样温度',
    'longest answer, in tokens': '回答的最大长度（token 数）',
    'seed of sampling and of random examples': '采样和随机选取示例的随机种子',
    'answers for each row': '每行数据的回答数量',
    'any value, by its place: datasets.*.infer_cfg.inferencer.max_out_len=64; may be repeated': (
        '按位置修改任意值：datasets.*.infer_cfg.inferencer.max_out_len=64；可重复使用'
    ),
    'a config file whose models are asked': '提供模型的配置文件',
    'seed for drawing examples (default: 1234)': '抽取示例的随机种子（默认：1234）',
    'in chat, examples as turns of their own': '在对话中把每个示例作为单独的轮次',
    "ask a benchmark in this catalogue's wording; lm-eval also draws examples as it does, defects included": (
        '采用该项目的提示词写法；lm-eval 还会完全按其方式抽取示例，包括其缺陷'
    ),
    'let rows be downloaded from the hub': '允许从 hub 下载数据行',
}
_LINT = {
    'Find what would spoil a run: unfilled fields, leaked answers, lost examples, …': (
        '找出会毁掉一次运行的问题：未填充的字段、泄露的答案、丢失的示例……'
    ),
    'exit with 1 for warnings as well as errors': '有警告时也以 1 退出（不只是错误）',
    'rules to leave out': '不检查的规则',
    'write what is run as a config: .py, .yaml or .json': '把本次运行写成配置文件：.py、.yaml 或 .json',
    'lint rules to leave out': '不检查的规则',
    'rows checked per dataset (default: 200)': '每个数据集检查的行数（默认：200）',
    'print one JSON object per finding': '每个问题输出一个 JSON 对象',
    'list the rules and exit': '列出所有规则并退出',
}
_RUN = {
    'Run a config, or resume the run in its directory: finished requests are not sent again.': (
        '运行一份配置，或继续其目录中的运行：已完成的请求不会再次发送。'
    ),
    'plan only: rows, tokens, price': '只看计划：行数、token 数、价格',
    'a benchmark by name, a config file, or a file of rows with --template or --choices': (
        '评测集名称、配置文件，或配合 --template 或 --choices 的数据文件'
    ),
    'run directory (default: runs/NAME_OF_CONFIG)': '运行目录（默认：runs/配置名）',
    'how much of a score is the wording': '分数有多少取决于措辞',
    'Ask variants of a dataset about the same rows: how much the score varies, by axis, beside the error of the rows '
    'and the noise of asking again.': (
        '用同样的数据行询问数据集的各种变体：分数随各维度变化多少，并给出数据行误差与重复提问的噪声。'
    ),
    'a benchmark by name, a config file, or a file of rows': '评测集名称、配置文件或数据文件',
    'separator, casing, spacing, labels, order; shots=0,2,5, draw=1,2,3, length=16,64; system=TEXT|TEXT, '
    'template=TEXT|TEXT, reader=NAME,NAME; or any PATH=VALUE,VALUE': (
        'separator、casing、spacing、labels、order；shots=0,2,5、draw=1,2,3、length=16,64；system=文本|文本、'
        'template=文本|文本、reader=名称,名称；或任意 PATH=值,值'
    ),
    'ask again N times: the noise': '再问 N 次：测量噪声',
    'look for the best variant: hopeless ones stop early': '寻找最好的变体：没有希望的提前停止',
    'write the best variant as a config': '把最好的变体写成配置',
    'asks nothing new': '不发送新请求',
    'N rows of each dataset, drawn at random; datasets of a group share N': (
        '从每个数据集随机抽取 N 行；同组的数据集共用 N'
    ),
    'another draw of rows for --sample and --until': '为 --sample 和 --until 另抽一批行',
    'ask in random order and stop as soon as the models are told apart (decided), or every score is known to so many '
    'points (±2)': '按随机顺序提问，一旦能区分各模型（decided）或每个分数的误差小于给定分值（±2）就停止',
    'end between rows before more than this is spent': '在花费超过此数之前，于两行之间结束',
    'end between rows before more tokens are used': '在用掉更多 token 之前，于两行之间结束',
    'end between rows after this time': '到此时间后，于两行之间结束',
    'pause a run under way, or change its concurrency': '暂停正在进行的运行，或改变其并发数',
    'Tell a run under way what is wanted of it. It looks between rows; rows under way are finished.': (
        '告诉正在进行的运行要做什么。它在两行之间查看；已开始的行会完成。'
    ),
    'what it answered is kept': '已有的回答会保留',
    'the run directory': '运行目录',
    'start no further rows': '不再开始新的行',
    'go on': '继续',
    'requests to each model under way at once, at most': '每个模型同时进行的请求数上限',
    'do not ask this model any more': '不再询问此模型',
    'only the first N rows of each dataset': '每个数据集只用前 N 行',
    'resend rows with these outcomes: failed, too_long, truncated_by_server, filtered, thinking_exhausted, unparsed': (
        '重新发送具有这些结果的数据行：failed、too_long、truncated_by_server、filtered、thinking_exhausted、unparsed'
    ),
    'ask servers what they do with prompts, by a few tiny requests: paid ones too, or none (default: inference '
    'engines of your own)': '用几个极小的请求查明服务器如何处理提示词：包括付费服务，或都不查（默认：自己的推理引擎）',
    'run what can run; report at the end what could not, and exit with 1': (
        '能运行的先运行；最后报告不能运行的，退出码为 1'
    ),
    'run although the linter finds errors': '即使检查发现错误也运行',
    'print the plan and stop': '输出计划后停止',
    'JSON with US dollars for a million tokens, by model name': 'JSON 价格文件：按模型名给出每百万 token 的美元价格',
    "with --dry-run: ask the vendor's counting endpoint for tokens (Anthropic), where no tokenizer is at hand": (
        '与 --dry-run 合用：本机没有分词器时，向厂商的计数接口查询 token 数（Anthropic）'
    ),
    'how the run is made': '运行方式',
    'where models are computed: 4 (processes of this machine), ray, ray://HOST:PORT or ray#8 (a Ray cluster, at most 8 '
    'workers per model); which rows are asked: 0/4 (the first of four shares), slurm (the share of this task); may be '
    'repeated': (
        '在哪里计算模型：4（本机的进程数）、ray、ray://HOST:PORT 或 ray#8（Ray 集群，每个模型最多 8 个工作进程）；'
        '处理哪些数据行：0/4（四份中的第一份）、slurm（本任务的那一份）；可以重复'
    ),
    'print only scores and problems': '只输出分数和问题',
}
_BATCHES = {
    'fetch the answers of a run that was submitted as batches': '取回以批处理方式提交的运行的回答',
    'submit batches; rolecall runs collect fetches them': '以批处理方式提交；用 rolecall runs collect 取回',
    'stream replies to keep the time to first token, while that takes under a twentieth of a core': (
        '以流式接收回复并记录首 token 时延；占用超过一个核的二十分之一时改为非流式'
    ),
    'submit as batches (OpenAI, Anthropic: cheaper, results within a day), then exit': (
        '提交到服务器的批处理接口（OpenAI、Anthropic），按批处理价格计费，然后退出'
    ),
    'Fetch what batches have answered into the run, and score it. Repeat it at will, also on another machine: a copy '
    'of the run directory and the key in the environment are enough. Exit code 3: batches have not ended.': (
        '把批处理已得到的回答取回到运行目录并评分。可以随时重复执行，也可以在另一台机器上执行：只需运行目录的副本和'
        '环境变量中的密钥。退出码 3：批处理尚未结束。'
    ),
    'what has been answered so far': '取回目前已有的回答',
    'until every batch has ended': '直到所有批处理结束',
    'and later turns and judges in batches of their own': '后续轮次和裁判也用各自的批处理',
    'stop; answers so far are kept': '停止；保留已有的回答',
    'ask again until every batch has ended': '反复查询，直到所有批处理结束',
    'with --wait: how often to ask (5 to 60 s)': '与 --wait 合用：查询的间隔（5 到 60 秒）',
    'submit what follows from the answers as the next batch': '把由回答引出的后续请求作为下一批提交',
    'cancel the batches; answers so far are kept': '取消批处理；保留已有的回答',
    "the run's config, where it uses functions that are not in the run directory": (
        '该运行的配置，用于配置中的函数不在运行目录中的情况'
    ),
}
_RESULTS = {
    'List the run directories below a folder, newest last, each with its scores.': (
        '列出文件夹下的运行目录及其分数，最新的在最后。'
    ),
    'where to look (default: runs)': '查找的位置（默认：runs）',
    'one JSON object per run': '每次运行输出一个 JSON 对象',
    'Show the scores of a run with confidence intervals, or write them with every row to an HTML page.': (
        '显示一次运行的分数和置信区间，或连同每一行写成 HTML 页面。'
    ),
    'a run directory': '运行目录',
    'a run directory, or that of a benchmark': '运行目录或性能测试目录',
    'write a self-contained page with plots and every row': '写出自包含的页面，含图表和每一行',
    'scores by columns of the rows, by length, answer_position or class: difficulty,length,class': (
        '按数据行的列、长度（length）、答案位置（answer_position）或类别（class）给出分数：difficulty,length,class'
    ),
    'scores by columns of the rows, by length, answer_position or class: language,difficulty': (
        '按数据行的列、长度（length）、答案位置（answer_position）或类别（class）给出分数：language,difficulty'
    ),
    'also write a JUnit file, for continuous integration': '同时写出 JUnit 文件，用于持续集成',
    'print Markdown tables': '输出 Markdown 表格',
    'print one line per score': '每个分数输出一行',
    'open the page in a browser (default file: RUN/report.html)': '在浏览器中打开页面（默认文件：RUN/report.html）',
    'show the members of groups in the terminal, too': '在终端中也显示各组的成员',
    'JSON of prices: {"model*": {"input": 2.5, "output": 10}}': '价格 JSON：{"model*": {"input": 2.5, "output": 10}}',
    "the run's config; colours prompts by origin in the page": '该运行的配置；页面中按来源为提示词着色',
    'Compare two runs, or two models of one run, on the rows both have scored: differences with intervals and '
    'p-values, and the rows whose verdict changed.': (
        '在双方都已评分的数据行上比较两次运行，或一次运行中的两个模型：差异及其置信区间和 p 值，以及判定发生变化的行。'
    ),
    'exit codes with --gate: 0 not worse, 1 worse, 3 too few rows to tell, or not measured': (
        '--gate 的退出码：0 没有变差，1 变差，3 数据行太少无法判断或没有测量'
    ),
    'in continuous integration': '用于持续集成',
    'the baseline': '基线运行',
    'the run to compare with it': '与基线比较的运行',
    'compare these models; with one run, two of its models': '比较这些模型；只给一次运行时，比较其中的两个模型',
    'changed rows shown per dataset (default: 10)': '每个数据集显示的变化行数（默认：10）',
    'print one JSON object': '输出一个 JSON 对象',
    'is RUN_B worse than RUN_A? Tell by the exit code': 'RUN_B 是否比 RUN_A 差？以退出码表示',
    'a loss up to this is accepted; of benchmarks, in percent (default: 2)': (
        '可以接受的下降幅度；性能测试为百分比（默认：2）'
    ),
    'print the verdicts as Markdown, for a pull request': '把结论输出为 Markdown，用于合并请求',
    'Merge run directories into one, each request and each row once. Exit code 1 if runs contradict each other.': (
        '把多个运行目录合并为一个，每个请求和每一行只保留一次。各次运行互相矛盾时退出码为 1。'
    ),
    'on one machine': '在一台机器上',
    'on another': '在另一台机器上',
    'asks for what is missing, and scores': '补问缺少的部分，然后评分',
    'the run directory to write, new or an earlier merge': '要写入的运行目录：新的，或之前合并过的',
    'run directories to take': '要合并的运行目录',
    'Turn a log of another harness into a run directory that report, compare, export and web open: prompts, replies, '
    'answers, scores and settings as the log has them. What it lacks is "not recorded".': (
        '把其他评测框架的日志变成 report、compare、export 和 web 可以打开的运行目录：提示词、回复、答案、分数和设置'
        '都按日志原样保留。日志中没有的内容标为 "not recorded"。'
    ),
    'lm-eval, inspect, opencompass, aisbench': 'lm-eval、inspect、opencompass、aisbench',
    'its folder of results, or its log file': '其结果文件夹或日志文件',
    'run directory (default: runs/NAME_OF_LOG)': '运行目录（默认：runs/日志名）',
    'Say what is installed, which models are at hand, and whether keys and endpoints work. With RUN: read every row '
    'and request of a run and compare it with its checksum. Exit code 1 if something is wrong.': (
        '说明安装了什么、有哪些模型可用、密钥和接口是否正常。给出 RUN 时：读取一次运行的每一行和每个请求，'
        '并与校验和比对。发现问题时退出码为 1。'
    ),
    'without a run: ask no endpoint': '未给出运行时：不访问任何接口',
    'without a run: one JSON object per line': '未给出运行时：每行输出一个 JSON 对象',
    'copy intact rows into this new run directory': '把完好的部分保存到这个新的运行目录',
}
_EXPORT = {
    'Write requests, results or training data to a file.': '把请求、结果或训练数据写入文件。',
    'write every request as an OpenAI batch file': '把每个请求写成 OpenAI 批处理文件',
    'write every row of a run': '写出一次运行的每一行',
    'log a run to MLflow': '将一次运行记录到 MLflow',
    'Log a run to MLflow: for each model a run with scores, parameters, rows as a table, and the report.': (
        '将一次运行记录到 MLflow：每个模型对应一个运行，包含分数、参数、以表格形式保存的数据行和报告。'
    ),
    "where MLflow keeps runs (default: MLflow's own setting)": 'MLflow 保存运行的位置（默认：MLflow 自身的设置）',
    'the experiment (default: the name of the run)': '实验（默认：运行的名称）',
    'write rows as fine-tuning data': '把数据行写成微调数据',
    'Write every request as one line of an OpenAI batch file.': '把每个请求写成 OpenAI 批处理文件中的一行。',
    '.gz compresses (default: -, which is stdout)': '.gz 表示压缩（默认：-，即标准输出）',
    "Write one record per row of a run: prediction, gold answer, score, outcome, and the row's own fields.": (
        '为运行的每一行写出一条记录：预测、标准答案、分数、结果，以及该行自己的字段。'
    ),
    'every-eval-ever writes a folder of records in that schema (default: by the ending of FILE, or jsonl)': (
        'every-eval-ever 写出该格式的记录文件夹（默认：按 FILE 的扩展名，否则 jsonl）'
    ),
    'add the requests that were sent': '附上发送过的请求',
    'only models whose abbr matches': '只选 abbr 匹配的模型',
    'default: -, which is stdout': '默认：-，即标准输出',
    'Write rows as fine-tuning data. Each line starts with exactly the request that inference sends, followed by the '
    'answer.': '把数据行写成微调数据。每行以推理时发送的确切请求开头，后接答案。',
    'a prompter instead of a config': '用 Prompter 代替配置',
    'a config file, or a file of rows with --prompter or --template': (
        '配置文件，或配合 --prompter 或 --template 的数据文件'
    ),
    'which rows of a config to use (default: test)': '使用配置中的哪些数据行（默认：test）',
    'contents of a line (default: messages); docs/fine-tuning.md says which trainer reads which': (
        '每行的内容（默认：messages）；哪个训练框架读取哪种，见 docs/fine-tuning.md'
    ),
    'all-answers also trains on the answers of examples (default: answer)': (
        'all-answers 也训练示例中的答案（默认：answer）'
    ),
    'text that ends an answer where the model side defines none': '模型侧没有定义结束符时，用来结束答案的文本',
    'skip and count rows that cannot be used': '跳过并统计无法使用的数据行',
    'the prompter that writes the prompts': '用来写提示词的 Prompter',
    'column that holds the answer': '答案所在的列',
    'column of the user input (default: input)': '用户输入所在的列（默认：input）',
    'column of the earlier turns': '历史对话所在的列',
    "column of each row's tools": '每行工具所在的列',
}
_TUNE = {
    'Fine-tune a local model: every prompt is worded as inference words it, and the answers are trained on. The same '
    'command after an interruption resumes at the last checkpoint.': (
        '微调本地模型：每条提示词的写法与推理时一致，训练目标是答案。中断后再次执行同一命令，会从最近的检查点继续。'
    ),
    'training': '训练',
    'hf:FOLDER, hf:ORG/NAME, a model folder, or CONFIG.py:ABBR': 'hf:FOLDER、hf:ORG/NAME、模型文件夹或 CONFIG.py:ABBR',
    'a file of rows with answers (.jsonl, .json, .csv, .parquet, …)': (
        '带答案的数据文件（.jsonl、.json、.csv、.parquet……）'
    ),
    'where the tuned model goes': '微调后模型的存放位置',
    'replace an earlier tuning in that folder': '覆盖该文件夹中之前的微调结果',
    'only the first N rows': '只用前 N 行',
    'all-answers also trains on the answers of the history (default: answer)': (
        'all-answers 也训练历史对话中的答案（默认：answer）'
    ),
    'text that ends an answer if the model has none': '模型没有结束符时，用来结束答案的文本',
    'train LoRA adapters of this rank, not all weights': '训练该秩的 LoRA 适配器，而不是全部权重',
    'passes over the rows (default: 3)': '遍历数据的轮数（默认：3）',
    'stop after N updates': '更新 N 次后停止',
    'rows in each update (default: 8)': '每次更新的行数（默认：8）',
    'rows at once, if a batch needs too much memory': '一次计算的行数，用于批次占用内存过多时',
    'default: 2e-4 with --lora, 2e-5 for all weights': '默认：--lora 时为 2e-4，训练全部权重时为 2e-5',
    'share (or number) of rows that measure the loss (default: 0.1)': '用来测量损失的行的比例（或数量，默认：0.1）',
    "leave out longer rows (default: the model's limit)": '略去更长的行（默认：模型的上限）',
    'for the order of rows and new weights (default: 0)': '数据行顺序和新权重的随机种子（默认：0）',
    'updates between checkpoints (default: 100)': '两个检查点之间的更新次数（默认：100）',
    'less memory, about a third slower': '占用内存更少，约慢三分之一',
    "'cpu', 'cuda' or 'cuda:1' (default: CUDA if there is one)": "'cpu'、'cuda' 或 'cuda:1'（默认：有 CUDA 时用 CUDA）",
    'dtype of the weights (default: bfloat16 files stay so, see docs)': (
        '权重的数据类型（默认：bfloat16 文件保持不变，见文档）'
    ),
}
_TOOLS = {
    'Serve a local page that shows prompts by origin, compares and lints them, and reads runs. It listens on loopback '
    'only, and its URL contains a token.': (
        '提供一个本地页面：按来源显示提示词，比较和检查提示词，查看运行结果。只监听本机回环地址，URL 中带有令牌。'
    ),
    'config files and run directories': '配置文件和运行目录',
    'the log of an application, whose calls are shown live': '应用程序的日志文件，实时显示其调用',
    'address to listen on (default: 127.0.0.1)': '监听地址（默认：127.0.0.1）',
    'port (default: any free port)': '端口（默认：任意空闲端口）',
    'print the URL without opening a browser': '只输出 URL，不打开浏览器',
    'Download and fine-tune local models.': '下载和微调本地模型。',
    'download the weights of an embedded model': '下载内置模型的权重',
    'Download the weights of an embedded model into the cache (set ROLECALL_CACHE to move it).': (
        '把内置模型的权重下载到缓存（用 ROLECALL_CACHE 更改位置）。'
    ),
    'default: smollm2': '默认：smollm2',
    'Show configs, and list what they can name.': '显示配置，并列出其中可用的名称。',
    'print a config after imports and inheritance': '输出完成导入和继承后的配置',
    'Print a config as rolecall reads it: imports resolved, names in file order.': (
        '按 rolecall 读取的方式输出配置：导入已解析，名称按文件中的顺序。'
    ),
    'a config file, a benchmark by name, or a task file of lm-evaluation-harness': (
        '配置文件、评测集名称，或 lm-evaluation-harness 的任务文件'
    ),
    'print JSON': '输出 JSON',
    'List the parts that a config can name: built in, and from installed packages (see docs/plugins.md).': (
        '列出配置中可以使用的组件：内置的，以及来自已安装软件包的（见 docs/plugins.md）。'
    ),
    'templates, retrievers, models, inferencers, metrics, postprocessors, datasets, lint_rules, judges, '
    'meta_templates, benchmarks': (
        'templates（提示词模板）、retrievers（检索器）、models（模型）、inferencers（推理器）、metrics（评估器）、'
        'postprocessors（后处理）、datasets（数据集）、lint_rules（检查规则）、judges（评审）、meta_templates（元模板）、'
        'benchmarks（评测集）'
    ),
    'one JSON object per line': '每行输出一个 JSON 对象',
    'Work with run directories, or import logs of other harnesses.': ('处理运行目录，或导入其他评测框架的日志。'),
    'show the prompt a prompter writes': '显示 Prompter 写出的提示词',
    'Show the prompt that a prompter of a Python file writes, and where every character comes from.': (
        '显示 Python 文件中的 Prompter 写出的提示词，以及每个字符的来源。'
    ),
    'the file and the name of the prompter in it': '文件及其中 Prompter 的名称',
    'the input: text, or JSON for slots and messages': '输入：文本，或用于槽位和消息的 JSON',
    'earlier turns: pairs, or messages': '历史对话：问答对或消息',
    'the answer, as in training data': '答案，与训练数据中一样',
    'model family to write the string for, e.g. chatml': '按哪个模型系列写字符串，例如 chatml',
    'messages instead of a string': '输出消息而不是字符串',
    'make whitespace visible': '显示空白字符',
    'print the prompt and its spans as one line of JSON': '把提示词及其片段输出为一行 JSON',
    'Print a JSON schema of YAML and JSON configs. Editors use it to complete and check keys and names.': (
        '输出 YAML 和 JSON 配置的 JSON Schema。编辑器用它补全并检查键和名称。'
    ),
    '# then, as the first line of a config:': '# 然后，作为配置的第一行：',
    'Print a script that completes commands, options and the names of benchmarks.': (
        '输出用于补全命令、选项和评测集名称的脚本。'
    ),
    '# in ~/.bashrc': '# 写在 ~/.bashrc 中',
    '# in ~/.zshrc': '# 写在 ~/.zshrc 中',
    'the shell': 'shell 的名称',
}
_SCAN = {
    'only rows where these models (default: the better half) agree on another answer than the gold answer': (
        '只显示这些模型（默认：较好的一半）一致给出与标准答案不同的答案的样本'
    ),
    'with --doubted: write the rows as JSON lines': '配合 --doubted：把这些样本写成 JSON 行',
    'with --doubted: one JSON object per row, then per score': '配合 --doubted：每个样本、然后每个分数一个 JSON 对象',
    'what sways the judges of the config': '探测配置中的评审模型会被什么左右',
    'a model that judges answers, instead of a metric: correctness:openai/NAME (rolecall config list judges)': (
        '用模型评判答案，代替指标：correctness:openai/NAME（见 rolecall config list judges）'
    ),
    "the judge's requests about the answers, and for a file of rows who judges: "
    'a model that judges answers, instead of a metric: correctness:openai/NAME (rolecall config list judges)': (
        '评审模型收到的请求；或用模型评判答案，代替指标：correctness:openai/NAME（见 rolecall config list judges）'
    ),
    'probe the judges instead of running the datasets: what sways them? With gold answers, or those of RUN': (
        '不运行数据集，而是探测评审模型会被什么左右：用标准答案，或用 RUN 的答案'
    ),
    'find refusals, loops, cut replies and the like in a run': '找出运行中的拒答、循环、被截断等回复',
    'Scan the replies of a run by rules, or have a model answer a yes/no question about them. Counts have 95 % '
    'intervals by model and dataset; reports and the page show them, too.': (
        '按规则扫描运行中的回复，或让模型回答关于它们的是非问题。计数按模型和数据集给出 95 % 区间；报告和网页也会显示。'
    ),
    'only these rules, by their first word': '只用这些规则（写第一个词）',
    'a yes/no question about each reply, for --judge to answer': '关于每条回复的是非问题，由 --judge 回答',
    'the model that answers --ask, e.g. openai/gpt-4.1': '回答 --ask 的模型，例如 openai/gpt-4.1',
    'with --ask: at most N replies of each dataset and model, evenly spread (default: 100)': (
        '配合 --ask：每个数据集与模型最多 N 条回复，均匀选取（默认 100）'
    ),
    'with --ask: print the plan and its price, and stop': '配合 --ask：只打印计划和价格',
    'one JSON object per rule, dataset and model': '每条规则、数据集与模型一个 JSON 对象',
}
_LABELS = {
    'read the replies of a run with all readers, and count reading errors in': (
        '用所有读取器重读一次运行的回复，并计入读取误差'
    ),
    'Read the stored replies with all readers. About thirty decisions of a person in the page, or of a judge, show how '
    'often each reader errs: scores get an interval that includes reading error, and orders of models say whether they '
    'survive it. Decisions are kept with the run.': (
        '用所有读取器重读已保存的回复。由人在页面中（或由裁判）判断约三十行，即可知道每个读取器出错的频率：'
        '分数的区间会计入读取误差，并说明模型排名是否仍然成立。判断结果保存在运行目录中。'
    ),
    'decide rows in the page': '在页面中判断',
    'rows to read of each dataset and model, drawn at random (default: 2000)': (
        '每个数据集与模型随机读取的行数（默认 2000）'
    ),
    'have a model decide, e.g. openai/gpt-4.1': '由模型判断，例如 openai/gpt-4.1',
    'one JSON object per dataset and model': '每个数据集与模型一个 JSON 对象',
    'write what people decided about rows instead': '改为写出人们对各行的判断',
    "add people's labels to a run, and correct its scores by them": '把人工标注加入一次运行，并据此校正分数',
    'Join ratings and verdicts of people with the rows of a run, by row number or by content, and compare them with '
    "the run's verdicts: agreement, kappa, precision and recall, and the score corrected for their errors. Without "
    'FILE, the labels that the run has. Exit code 1 if a line of FILE fits no row.': (
        '按行号或内容把人工评分和判定与一次运行的数据行对应起来，并与运行的判定比较：一致率、kappa、精确率与召回率，'
        '以及校正误差后的分数。不给 FILE 时使用运行已有的标注。若 FILE 中有对应不上的行，退出码为 1。'
    ),
    'label rows in the page': '在页面中标注',
    'CSV, JSONL, JSON or Parquet, or a run with labels': 'CSV、JSONL、JSON 或 Parquet 文件，或带标注的运行目录',
    'columns with labels, one for each person': '标注所在的列，每人一列',
    'the column that names the person': '标注者姓名所在的列',
    'columns that say which row is meant': '用来确定数据行的列',
    'ratings from LOW to HIGH become 0 to 1': '把 LOW 到 HIGH 的评分换算为 0 到 1',
    'ratings from N on are correct, others wrong': '评分不低于 N 为正确，其余为错误',
    'what X means: 1=win,2=loss,0=tie': 'X 的含义，例如 1=win,2=loss,0=tie',
    'correct by the labels of another run with the same judge': '用同一裁判的另一次运行的标注来校正',
    'print the N rows to label next, as CSV': '以 CSV 输出接下来最值得标注的 N 行',
    'the calibrations as JSON, one a line': '以 JSON 输出校准结果，每行一个',
}
CHINESE: Mapping[str, str] = {
    **_COMMANDS,
    **_INIT,
    **_VIEW,
    **_LINT,
    **_RUN,
    **_BATCHES,
    **_BENCH,
    **_RESULTS,
    **_SCAN,
    **_EXPORT,
    **_TUNE,
    **_LABELS,
    **_TOOLS,
}
"""Each English text of the help with its Chinese one."""
