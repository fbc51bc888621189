// Lint: what would spoil a run; a click jumps to the prompt that shows it, with the excerpt marked.
import { html, t, useAsk, countOf } from './lib.js';
import { Problem, Loading, Empty } from './parts.js';

const ORDER = ['error', 'warning', 'info'];
const targetOf = (finding, config) => {
  const [first, second] = finding.where.split(' × ');
  const dataset = config.datasets.find((one) => one.abbr === first)?.abbr;
  const model = config.models.find((one) => one.abbr === (second || first))?.abbr;
  const mark = (finding.example || '').split('…').sort((a, b) => b.length - a.length)[0].trim();
  return dataset || model ? { view: 'explore', ...(dataset ? { dataset } : {}), ...(model ? { model } : {}), row: finding.row ?? '', n: '', q: '', as: '', mark: mark.slice(0, 80) } : null;
};
const severities = (findings) => ORDER.map((severity) => [severity, findings.filter((one) => one.severity === severity).length]).filter(([, count]) => count);

export const Finding = ({ finding, config, change, short = false }) => {
  const target = targetOf(finding, config);
  const rows = finding.row == null ? '' : finding.seen ? t('{n} of {seen}, e.g. row {row}', { n: finding.count, seen: countOf(finding.seen, 'row'), row: finding.row }) : `${t('row')} ${finding.row}`;
  const body = html`<span class="head"><span class=${`severity ${finding.severity}`}>${t(finding.severity)}</span> <code>${finding.rule}</code>${short ? null : html` <bdi class="where">${finding.where}</bdi>`}</span>
    <span class="message">${finding.message}${rows ? html` <span class="soft">(${rows})</span>` : null}</span>
    ${finding.example ? html`<code class="example">${finding.example}</code>` : null}<span class="remedy">${finding.remedy}</span>`;
  return html`<li>${target ? html`<button type="button" class=${`finding ${finding.severity}`} onClick=${() => change(target)}>${body}</button>` : html`<div class=${`finding ${finding.severity}`}>${body}</div>`}</li>`;
};

export const Lint = ({ session, address, change }) => {
  const config = session.configs[Number(address.config || 0)] || session.configs[0];
  const { found, error, busy, again } = useAsk('lint', { config: address.config || 0 }, Boolean(config && !config.error));
  if (!config) return html`<${Empty} title=${t('No config is open.')} />`;
  const findings = found ? [...found.findings].sort((a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity)) : [];
  return html`<div class="lint"><h2>${config.name}</h2>
    <${Problem} error=${config.error || error} again=${config.error ? null : again} />
    ${busy && !found ? html`<${Loading} />` : null}
    ${found ? html`<p class="count" role="status">${severities(findings).map(([severity, count]) => (severity === 'info' ? `${count} ${t('info')}` : countOf(count, severity))).join(', ')}</p>` : null}
    ${found && !findings.length ? html`<${Empty} title=${t('Nothing found.')}>${t('The linter looked at the first rows of every dataset with every model.')}</${Empty}>` : null}
    <ul class="findings">${findings.map((finding) => html`<${Finding} finding=${finding} config=${config} change=${change} />`)}</ul></div>`;
};
