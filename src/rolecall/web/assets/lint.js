// Lint: what would spoil a run; a click jumps to the prompt that shows it.
import { html, t, useAsk, Problem, Select, countOf } from './lib.js';

const ORDER = ['error', 'warning', 'info'];
const targetOf = (finding, config) => {
  const [first, second] = finding.where.split(' × ');
  const dataset = config.datasets.find((one) => one.abbr === first)?.abbr;
  const model = config.models.find((one) => one.abbr === (second || first))?.abbr;
  return dataset || model ? { view: 'explore', dataset: dataset || '', model: model || '', row: finding.row ?? '', n: '', q: '' } : null;
};

export const Lint = ({ session, address, change }) => {
  const config = session.configs[Number(address.config || 0)] || session.configs[0];
  const { found, error, busy } = useAsk('lint', { config: address.config || 0 }, Boolean(config && !config.error));
  if (!config) return html`<p class="note">No config was opened.</p>`;
  const findings = found ? [...found.findings].sort((a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity)) : [];
  return html`<div class="lint"><h2>${config.name}</h2>
    <${Problem} error=${config.error || error} />
    <p class="count" role="status">${busy ? t('Loading …') : findings.length ? ORDER.map((severity) => [severity, findings.filter((one) => one.severity === severity).length]).filter(([, count]) => count).map(([severity, count]) => (severity === 'info' ? `${count} info` : countOf(count, severity))).join(', ') : t('Nothing found.')}</p>
    <ul class="findings">${findings.map((finding) => {
      const target = targetOf(finding, config);
      const body = html`<span class=${`severity ${finding.severity}`}>${finding.severity}</span> <code>${finding.rule}</code> <bdi class="where">${finding.where}</bdi>
        <span class="message">${finding.message}${finding.row != null ? ` (${finding.seen ? `${finding.count} of ${countOf(finding.seen, 'row')}, e.g. ` : ''}row ${finding.row})` : ''}</span>
        ${finding.example ? html`<code class="example">${finding.example}</code>` : null}<span class="remedy">${finding.remedy}</span>`;
      return html`<li>${target ? html`<button type="button" class="finding" onClick=${() => change(target)}>${body}</button>` : html`<div class="finding">${body}</div>`}</li>`;
    })}</ul></div>`;
};
