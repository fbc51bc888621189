// The page's words in Chinese; a word that is missing here is shown in English.
export const CHINESE = {
  Explore: '浏览', Compare: '对比', Lint: '检查', Edit: '编辑', Runs: '运行记录', Try: '试运行', Config: '配置', Dataset: '数据集', Model: '模型',
  Rows: '样本', Row: '样本', row: '条样本', request: '个请求', token: '个 token', finding: '个问题', Search: '搜索', Text: '文本', Messages: '消息', Tokens: 'Token', JSON: 'JSON',
  'Fold examples': '折叠示例', 'Show whitespace': '显示空白', 'The row': '样本字段', 'About this request': '请求信息', 'Where it comes from': '来源',
  'Loading …': '加载中…', 'No matching rows.': '没有匹配的样本。', 'Keyboard': '键盘', 'next and previous row': '下一条 / 上一条样本', 'next and previous model': '下一个 / 上一个模型', 'search': '搜索',
  'Left': '左', 'Right': '右', 'The requests are identical.': '两个请求完全相同。', 'Nothing found.': '未发现问题。', 'Click a part of the prompt to see where it comes from.': '点击提示词的任意部分查看其来源。',
  Outcome: '结果', Verdict: '判定', all: '全部', Scores: '得分', Gold: '标准答案', Extracted: '提取的答案', Reply: '回复', Prompt: '提示词', Reasoning: '推理', Details: '详情',
};
