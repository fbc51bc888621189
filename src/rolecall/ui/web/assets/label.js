// The queue of a run: one row after another is labelled, or its reply is read, by keyboard alone.
import { html, t, send, useAsk, useKeys, useState, number } from './lib.js';
import { Problem, Loading, Empty, Tabs } from './parts.js';
import { RowDetail, keyOf, readPerson, keepPerson } from './run_row.js';

const KEYS = { correct: 'y', wrong: 'n', win: 'w', tie: 't', loss: 'l' };
const NO_ANSWER = null;
const LETTERS = 'abcdefgh';

export const LabelQueue = ({ session, address, change, run }) => {
  const task = ['answer', 'second'].includes(address.task) ? address.task : 'label';
  const [by, setBy] = useState(readPerson());
  const [past, setPast] = useState([]);
  const [skipped, setSkipped] = useState([]);
  const [error, setError] = useState('');
  const [turn, setTurn] = useState(0);
  const [isStoring, setStoring] = useState(false);
  const { found, error: failed, again } = useAsk('queue', { run: address.run || 0, task, by, turn, skipped: skipped.length });
  const passed = [...skipped, ...past.map(keyOf)];
  const rows = found ? found.rows.filter((row) => !passed.includes(keyOf(row))) : [];
  const row = rows[0];
  const wanted = row && { dataset: row.dataset, model: row.model, row: row.row };
  const mine = { ...wanted, by }; // undone in the name of the person who decided it
  const store = (where, value) => send('label', { run: Number(address.run || 0), ...where, [task === 'answer' ? 'answer' : 'label']: value }).then(
    () => { setError(''); setTurn(turn + 1); dispatchEvent(new Event('labelled')); return true; }, (problem) => { setError(problem.message); return false; });
  const decide = async (value) => {
    if (!wanted || isStoring) return;
    setStoring(true);
    setPast([...past, mine]); // the next row takes its place at once, so that a quick key does not decide this row again
    if (!await store(mine, value)) setPast(past);
    setStoring(false);
  };
  const undo = async () => { const last = past[past.length - 1]; if (last && await store(last, '')) setPast(past.slice(0, -1)); };
  const skip = () => row && setSkipped([...skipped, keyOf(row)]);
  const isTyped = task === 'answer' || (row && !row.choices.length);
  const type = () => { const typed = prompt(task === 'answer' ? t('Which answer does the reply give?') : t('Your mark, a number')); if (typed && typed.trim()) decide(typed.trim()); };
  const choices = !row ? [] : task === 'answer'
    ? [...row.choices.slice(0, LETTERS.length).map((value, at) => [LETTERS[at], value, value]), ['n', NO_ANSWER, t('no answer')]]
    : row.choices.map((name) => [KEYS[name], name, t(name)]);
  useKeys({ ...Object.fromEntries(choices.map(([key, value]) => [key, () => decide(value)])), s: skip, u: undo, ...(isTyped ? { o: type } : {}) });
  const switchTask = (name) => { setPast([]); setSkipped([]); change({ task: name === 'label' ? '' : name }); };
  const scores = found?.lines.length ? html`<h3>${t('The score so far')}</h3>${found.lines.map((line) => html`<p class=${line.startsWith(' ') ? 'soft' : ''}>${line.trim()}</p>`)}` : null;
  if (failed) return html`<${Problem} error=${failed} again=${again} />`;
  if (!found) return html`<${Loading} lines=${10} />`;
  return html`<div class="queue"><div class="bar">
      <${Tabs} label=${t('What is decided')} tabs=${[['label', t('Right or wrong')], ['answer', t('Which answer')], ['second', t('Second opinion')]]} value=${task} onchange=${switchTask} />
      <label class="field"><span>${t('Your name')}</span><input value=${by} maxlength="80" onChange=${(event) => { keepPerson(event.target.value.trim()); setBy(event.target.value.trim()); }} /></label>
      <span role="status">${t('{done} of {wanted} decided', { done: number(found.done), wanted: number(found.wanted) })}</span><progress max=${found.wanted} value=${Math.min(found.done, found.wanted)} aria-label=${t('Progress')}></progress>
      ${found.people.map(([name, count]) => html`<span class="soft"><bdi>${name || '–'}</bdi> ${number(count)}</span>`)}
      ${found.divided.length ? html`<button type="button" class="quiet" onClick=${() => switchTask('second')}>${t('{n} divided', { n: number(found.divided.length) })}</button>` : null}</div>
    ${row ? html`<div class="bar label decide" role="group" aria-label=${t('Your label')}>${choices.map(([key, value, words]) => html`<button type="button" onClick=${() => decide(value)}><kbd>${key}</kbd> <bdi>${words}</bdi></button>`)}
      ${isTyped ? html`<button type="button" onClick=${type}><kbd>o</kbd> ${task === 'answer' ? t('another answer') : t('a number')}</button>` : null}
      <button type="button" class="quiet" onClick=${skip}><kbd>s</kbd> ${t('Skip')}</button>
      <button type="button" class="quiet" disabled=${!past.length} onClick=${undo}><kbd>u</kbd> ${t('Undo')}</button></div>` : null}
    <${Problem} error=${error} />
    ${row ? html`<${RowDetail} key=${keyOf(row)} run=${Number(address.run || 0)} address=${address} wanted=${wanted} session=${session} change=${change} blind=${task} aside=${scores} />`
      : html`<${Empty} title=${t('Nothing left to decide.')}>${task === 'answer' && !found.lines.length ? t('No verdict of this run rests on an answer that a reader takes from a reply.') : null}<//>${past.length ? html`<button type="button" onClick=${undo}><kbd>u</kbd> ${t('Undo')}</button>` : null}${scores}`}</div>`;
};
