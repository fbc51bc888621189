// One row of a run: prompt, reply, extracted answer, gold, judge and label in one view.
import { html, t, send, useAsk, useState, number } from './lib.js';
import { Problem, Loading, Text, Facts } from './parts.js';
import { PromptView, drawByOrigin } from './prompt.js';
import { Drawn } from './parts.js';

export const keyOf = (one) => JSON.stringify([one.dataset, one.model, one.row]);
const words = (outcome) => t(outcome.replace('_', ' '));
const badgeOf = (one) => {
  if (one.outcome !== 'ok' && !['correct', 'wrong'].includes(one.verdict)) return [words(one.outcome), 'bad'];
  const also = one.outcome === 'ok' ? '' : ` (${words(one.outcome)})`;
  if (one.verdict === 'scored') return [`${t('score')} ${Number((one.score ?? 0).toPrecision(3))}`, ''];
  const marks = { correct: '✓ ', wrong: '✗ ' };
  return [`${marks[one.verdict] || ''}${t(one.verdict)}${also}`, one.verdict in marks ? one.verdict : ''];
};
export const Badge = ({ one }) => { const [said, kind] = badgeOf(one); return html`<span class=${`badge ${kind}`}>${said}</span>`; };
export const Answer = ({ name, text, query = '', place = null }) => html`<div><h4>${name}</h4>${text ? html`<${Text} text=${text} query=${query} place=${place} />` : html`<p class="say empty">${t('empty')}</p>`}</div>`;
export const Replies = ({ found, query = '' }) => html`${found.replies.map((reply, at) => html`<${Answer} name=${found.replies.length > 1 ? `${t('Reply')} ${at + 1}` : t('Reply')} text=${reply} query=${query} place=${(found.read_from || [])[at]} />`)}
  ${found.reasoning.map((thought) => html`<details><summary>${t('Reasoning')} (${number(thought.length)})</summary><${Text} text=${thought} query=${query} /></details>`)}`;

// Who labels: a name that this browser remembers.
const PERSON = 'rolecall-person';
export const readPerson = () => { try { return localStorage.getItem(PERSON) || ''; } catch { return ''; } };
export const keepPerson = (name) => { try { localStorage.setItem(PERSON, name); } catch { /* asked again next time */ } };

const Label = ({ run, wanted, labels }) => {
  const by = readPerson();
  const [label, setLabel] = useState(labels[by] ?? '');
  const [error, setError] = useState('');
  const set = (next) => send('label', { run, ...wanted, label: next, by }).then(
    () => { setLabel(next); setError(''); dispatchEvent(new Event('labelled')); }, (failed) => setError(failed.message));
  const others = Object.entries(labels).filter(([name]) => name !== by);
  return html`<div class="bar label" role="group" aria-label=${t('Your label')}><span class="soft">${t('Your label')}</span>
    ${['correct', 'wrong'].map((name) => html`<button type="button" aria-pressed=${label === name ? 'true' : 'false'} onClick=${() => set(label === name ? '' : name)}>${t(name)}</button>`)}
    ${others.map(([name, said]) => html`<span class="soft"><bdi>${name || '–'}</bdi>: ${t(String(said))}</span>`)}<${Problem} error=${error} /></div>`;
};

const Again = ({ run, wanted, onasked }) => {
  const [state, setState] = useState({ busy: false, error: '' });
  const start = () => {
    setState({ busy: true, error: '' });
    send('again', { run, ...wanted }).then(onasked, (error) => setState({ busy: false, error: error.message }));
  };
  return html`<button type="button" class="primary again" disabled=${state.busy} onClick=${start}>${state.busy ? t('Asking …') : t('Ask this row again')}</button><${Problem} error=${state.error} />`;
};

const Judge = ({ judged, legend }) => html`<h4>${t('Judge')}</h4>${judged.map(({ prompt, reply }) => html`<div class="judged"><${Text} text=${reply} />
  <details><summary>${t("The judge's prompt")}</summary><${Drawn} deps=${[prompt]} make=${() => drawByOrigin(prompt, legend)} /></details></div>`)}`;

// `blind` hides what would sway a person who labels: the verdict, the judge and, where replies are read, the gold answer.
export const RowDetail = ({ run, address, wanted, session, change, onasked, blind = '', aside = null }) => {
  const { found: stored, error, again } = useAsk('run_row', { run, ...wanted });
  const [newer, setNewer] = useState(null);
  if (error) return html`<${Problem} error=${error} again=${again} />`;
  const found = newer || stored;
  if (!found) return html`<${Loading} lines=${10} />`;
  const query = address.q || '';
  const hidden = html`<div class="outcome">${blind === 'answer' || !found.gold ? null : html`<div class="answers"><${Answer} name=${t('Gold')} text=${found.gold} /></div>`}
    ${found.replies.map((reply) => html`<${Answer} name=${t('Reply')} text=${reply} />`)}
    ${blind === 'answer' ? null : found.judge.slice(0, 1).map(({ prompt }) => html`<details><summary>${t("The judge's prompt")}</summary><${Drawn} deps=${[prompt]} make=${() => drawByOrigin(prompt, session.legend)} /></details>`)}<h4>${t('Prompt')}</h4></div>`;
  const above = blind ? hidden : html`<div class="outcome"><div class="bar"><${Badge} one=${found} /><${Label} key=${JSON.stringify(wanted)} run=${run} wanted=${wanted} labels=${found.labels} />
      ${found.again ? html`<${Again} run=${run} wanted=${wanted} onasked=${(row) => { setNewer(row); onasked(row); }} />` : null}</div>
    ${found.reason && found.outcome !== 'ok' ? html`<p class="why-not">${found.reason}</p>` : null}
    ${found.outcome !== 'ok' && !found.again ? html`<p class="note">${t('To ask this row again, start the page with the config of this run, too.')}</p>` : null}
    ${found.beside ? html`<p class="why-not">${found.beside}</p>` : null}
    <div class="answers"><${Answer} name=${t('Gold')} text=${found.gold} /><${Answer} name=${t('Extracted')} text=${found.extracted} /></div>
    <${Replies} found=${found} query=${query} />
    ${found.judge.length ? html`<${Judge} judged=${found.judge} legend=${session.legend} />` : null}
    ${found.details ? html`<details open=${found.details.length < 400}><summary>${t('Details')}</summary><${Text} text=${found.details} /></details>` : null}
    <h4>${t('Prompt')}</h4></div>`;
  const beside = blind ? aside : html`<h3>${t('About this row')}</h3><${Facts} facts=${found.facts.map(([name, said]) => [t(name), said])} />
    ${found.others.length ? html`<h3>${t('The same row')}</h3><div class="others">${found.others.map((one) => html`<button type="button" onClick=${() => change({ at: keyOf(one), model: '' })}><bdi>${one.model}</bdi> <${Badge} one=${one} /></button>`)}</div>` : null}`;
  const title = `${found.dataset} × ${found.model} · ${t('row')} ${found.row}`;
  if (!found.prompts.length) return html`<div class="workbench"><section class="main"><h2 class="title"><bdi>${title}</bdi></h2>${above}<p class="note">${t('The request was not kept.')}</p></section><aside class="inspector" aria-label=${t('Details')}>${beside}</aside></div>`;
  return html`<${PromptView} prompts=${found.prompts} legend=${session.legend} address=${address} change=${change} query=${query} above=${above} beside=${beside} tokens=${false} link=${{ view: 'runs', run, at: keyOf(found) }} />`;
};
