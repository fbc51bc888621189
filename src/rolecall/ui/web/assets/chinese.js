// The page's words in Chinese, by the English ones. A test compares this table with what the views say.
export const CHINESE = {
  // views and their parts
  Explore: '浏览', Edit: '编辑', Compare: '对比', Lint: '检查', Runs: '运行记录', Speed: '速度', Run: '运行', Views: '视图', 'Skip to content': '跳到正文', Keyboard: '快捷键',
  Config: '配置', Dataset: '数据集', Model: '模型', Row: '样本', Rows: '样本', Request: '请求', Search: '搜索', Filters: '筛选', Clear: '清除', Close: '关闭', Copy: '复制', Copied: '已复制', 'Copy link': '复制链接',
  'Loading …': '加载中…', 'Try again': '重试', 'The server does not answer. Is `rolecall web` still running?': '服务器没有响应。`rolecall web` 还在运行吗？',
  'No config is open.': '没有打开任何配置。', 'Start the page with one:': '启动页面时指定一个配置：', 'The config has no datasets.': '该配置没有数据集。',
  // the request
  Prompt: '提示词', Text: '文本', Messages: '消息', Tokens: 'Token', JSON: 'JSON', 'How the request is shown': '请求的显示方式', 'Requests of this row': '该样本的请求',
  'Fold examples': '折叠示例', 'Show whitespace': '显示空白', 'The row': '样本字段', 'About this request': '请求信息', 'Where it comes from': '来源', Details: '详情',
  'Click a part of the prompt to see where it comes from.': '点击提示词的任意部分查看其来源。', 'No matching rows.': '没有匹配的样本。', 'This row has no request.': '该样本没有请求。',
  origin: '来源', role: '角色', column: '列', fallback: '替代角色', '{role} is spoken as {other}': '{role} 以 {other} 的身份发言', 'meta template': '元模板', file: '文件', 'in the config': '配置中的位置',
  example: '示例', '{n}, training row {row}': '第 {n} 个，训练样本 {row}', length: '长度', value: '值', row: '样本', label: '候选', turn: '轮次', judge: '评审', request: '请求', 'no model': '无模型',
  picture: '图片', sound: '音频', film: '视频', '{what} cannot be shown.': '无法显示{what}。', "Not known here: the model's tokenizer is not on this machine.": '未知：本机没有该模型的分词器。',
  'The first {n} tokens are shown.': '仅显示前 {n} 个 token。', 'spans two origins': '跨越两个来源',
  'an invisible character': '不可见字符', 'show {n} more characters': '再显示 {n} 个字符', 'examples …': '示例…', 'What the colours mean': '颜色含义',
  'dataset text': '数据集文本', 'field of the row': '样本字段', 'in-context example': '上下文示例', 'model format': '模型格式', 'default text of a role': '角色的默认文本', 'message added by the model format': '模型格式添加的消息',
  'sent under a fallback role': '以替代角色发送', 'answer column, hidden': '答案列（已隐藏）', 'field without a value': '没有值的字段', 'candidate answer': '候选答案', 'earlier reply of the model': '模型先前的回复',
  'image, audio or video': '图片、音频或视频', 'chat template text': '对话模板文本', separator: '分隔符', 'as sent': '按发送内容',
  'The config now produces a different prompt; this is what was sent, without origins.': '当前配置生成的提示词已不同；这里显示当时发送的内容，没有来源信息。',
  'Open the config of this run with the page to see origins; this is what was sent.': '同时打开该运行的配置即可查看来源；这里显示当时发送的内容。',
  // facts
  'fell back': '替代', 'not sent': '未发送', moved: '移动', merged: '合并', dropped: '舍弃', truncated: '截断', context: '上下文', shots: '示例', skipped: '跳过', hidden: '隐藏', size: '大小', fingerprint: '指纹',
  'input tokens': '输入 token', 'output tokens': '输出 token', time: '耗时', 'training rows': '训练样本', 'dropped to fit': '因长度舍弃', 'belongs to': '所属', tokens: 'token', boundaries: '边界', tokenizer: '分词器', budget: '预算',
  // scan
  Replies: '回复', replies: '回复', scanner: '扫描项',
  // lint
  error: '错误', warning: '警告', info: '提示', 'Nothing found.': '未发现问题。', 'The linter looked at the first rows of every dataset with every model.': '检查了每个数据集与每个模型的前若干样本。',
  '{n} of {seen}, e.g. row {row}': '{seen}中的 {n} 条，例如样本 {row}',
  // compare
  Left: '左', Right: '右', 'The requests are identical.': '两个请求完全相同。', '{n} of {lines} differ': '{lines}中有 {n} 行不同', 'Only differences': '只看不同', 'Swap sides': '左右互换', 'Both requests, aligned': '对齐的两个请求',
  'The first {n} lines are shown.': '仅显示前 {n} 行。', 'What of the run is shown': '显示内容', Differences: '差异', 'The two have no dataset in common.': '两者没有共同的数据集。', 'Rows are aligned by content. How the two differ': '样本按内容对齐。两者的不同之处', "The link's row number is not a whole number: {row}": '链接中的样本编号不是整数：{row}',
  'Only on the left: {pairs}': '仅左侧有：{pairs}', 'Only on the right: {pairs}': '仅右侧有：{pairs}', 'Both were sent the same prompt.': '两者收到的提示词相同。', 'The prompts differ.': '提示词不同。',
  '{n} changed rows first': '先列出 {n} 条有变化的样本', 'No row changed.': '没有变化的样本。', '{n} sent differently (prompt, sampling or model)': '{n} 条的提示词、采样或模型不同', '{n} with another gold answer': '{n} 条标准答案不同', 'other {parts}': '不同的{parts}', 'Why they differ': '为什么不同', 'Not known: {what}': '无法得知：{what}',
  dataset: '数据集', model: '模型', metric: '指标', left: '左', right: '右', difference: '差值', p: 'p', rows: '样本数', flipped: '翻转', run: '运行',
  // try
  Try: '试运行', 'Ask again': '再次提问', Stop: '停止', 'writing …': '生成中…', 'Keep as a row': '保存为样本', 'Kept in {file}': '已保存到 {file}', Reply: '回复', Reasoning: '推理', empty: '空', outcome: '结果',
  'Log-probabilities': '对数概率', mean: '平均', 'not scored': '未评分', 'not asked': '未提问',
  // edit
  'Editable parts': '可编辑部分', 'Prompt template': '提示词模板', 'Example template': '示例模板', 'Retriever and examples': '检索器与示例', 'Inferencer and sampling': '推理器与采样', 'Meta template': '元模板',
  Form: '表单', Source: '源码', 'As in a config: values and dict(…)': '与配置写法相同：值与 dict(…)', Names: '名称', Role: '角色', 'its own': '自定义', none: '无', 'not set': '未设置',
  'Choose from the training rows': '从训练样本中选择', 'Training rows': '训练样本', 'No training rows.': '没有训练样本。', Undo: '撤销', Redo: '重做', 'Revert all': '全部还原', 'Show as config': '显示为配置',
  'New file': '新文件', Save: '保存', 'Saved {file}': '已保存 {file}', Changes: '改动', Before: '修改前', After: '修改后', 'Nothing is edited yet.': '还没有改动。', 'As you type': '实时结果', cost: '费用', lint: '检查',
  '{input} input, {most} at most': '输入 {input}，最多 {most}', 'not known here': '未知', 'updated in': '更新用时',
  // runs
  'All runs': '全部运行', 'Compare the two ticked': '对比所选两个', 'Compare {name}': '对比 {name}', live: '进行中', '{n} so far': '已有{n}', 'No scores yet.': '还没有得分。', Scores: '得分', '{n} scored': '{n} 已评分',
  'Datasets of {name}': '{name} 的数据集', Outcome: '结果', Verdict: '判定', all: '全部', 'Flipped against': '与之相比翻转', 'From row': '起始样本', 'No rows yet.': '还没有样本。', gold: '标准答案', Gold: '标准答案', Extracted: '提取的答案',
  '{n} labelled': '已标注 {n} 条', 'Your label': '你的标注', 'Ask this row again': '重新提问该样本', 'Asking …': '提问中…',
  'To ask this row again, start the page with the config of this run, too.': '若要重新提问，请在启动页面时同时指定该运行的配置。', Judge: '评审', "The judge's prompt": '评审的提示词', 'About this row': '样本信息', 'The same row': '同一样本',
  'The request was not kept.': '请求未保存。', ok: '正常', unparsed: '无法解析', filtered: '被过滤', 'too long': '过长', too_long: '过长', 'answered by': '作答者', 'truncated by the server': '被服务器截断', truncated_by_server: '被服务器截断', 'thinking exhausted': '思考耗尽', thinking_exhausted: '思考耗尽', failed: '失败',
  correct: '正确', wrong: '错误', scored: '已评分', score: '得分', cut: '被截断', 'readings differ': '读法不一致', labelled: '已标注', disagrees: '标注不一致', 'not finished': '未完成', accuracy: '准确率', 'mean of rows': '各样本均值',
  // labels
  Label: '标注', 'What is decided': '判断内容', 'Right or wrong': '对错', 'Which answer': '答案是什么', 'Second opinion': '复核', 'Your name': '你的名字', '{done} of {wanted} decided': '已判断 {done} / {wanted}', Progress: '进度',
  '{n} divided': '{n} 条意见分歧', 'no answer': '没有答案', 'another answer': '其他答案', 'a number': '分数', 'Your mark, a number': '你的评分（数字）', 'Which answer does the reply give?': '该回复给出的答案是什么？', Skip: '跳过', 'The score so far': '目前的得分', 'Nothing left to decide.': '没有需要判断的样本。',
  win: '胜', tie: '平', loss: '负',
  // calls
  Calls: '调用', reply: '回复', retry: '重试', 'tool call': '工具调用', 'tool result': '工具结果', 'tool failure': '工具失败', 'bad answer': '答案无效', trimmed: '已裁剪', usage: '用量',
  'No calls yet. They appear here as the application makes them.': '还没有调用。应用程序发出调用后会显示在这里。',
  // playground
  Playground: '试验场', 'Starting Python in this browser …': '正在浏览器中启动 Python…', 'Everything runs in this browser. The link holds what you paste; nothing is sent.': '一切都在浏览器中运行。粘贴的内容只保存在链接里，不会发送。',
  'Rows: JSON lines, JSON or CSV': '样本：JSON Lines、JSON 或 CSV', Template: '模板', 'Column of the answer': '答案所在列', Choices: '选项', Models: '模型', 'Add a model': '添加模型', 'As a config': '作为配置',
  // keys
  'open a view': '打开视图', 'next and previous row': '下一条 / 上一条样本', 'next and previous model': '下一个 / 上一个模型', search: '搜索', 'show whitespace': '显示空白', 'fold examples': '折叠示例',
  'undo and redo, in Edit': '撤销 / 重做（编辑）', 'only differences, in Compare': '只看不同（对比）', 'leave a field': '离开输入框', 'this list': '本列表',
  // counts
  '{n} row': '{n} 条样本', '{n} message': '{n} 条消息', '{n} token': '{n} 个 token', '{n} run': '{n} 次运行', '{n} line': '{n} 行', '{n} edit': '{n} 处改动', '{n} finding': '{n} 个问题', '{n} character': '{n} 个字符', '{n} error': '{n} 个错误', '{n} warning': '{n} 个警告',
};
