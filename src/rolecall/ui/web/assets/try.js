// Try: send the prompt that is shown to its model and watch the reply as it is written.
import { html, t, send, stream, useState, useEffect, useRef } from './lib.js';
import { Text, Facts, Problem } from './parts.js';

const Logprobs = ({ scored }) => html`<h4>${t('Log-probabilities')}${scored.mean == null ? '' : ` (${t('mean')} ${scored.mean.toFixed(3)})`}</h4>
  <div class="say logprobs" tabindex="0" role="group" aria-label=${t('Log-probabilities')}>${scored.tokens.map(([text, value]) => html`<span title=${value == null ? t('not scored') : value.toFixed(3)}
    data-level=${value == null ? '' : Math.min(4, Math.floor(-value))}>${Draw.drawText(text).map((node) => node.textContent).join('')}</span>`)}</div>`;

export const Try = ({ where, row, number, edits, request, judge = '' }) => {
  const [state, setState] = useState(null);
  const stop = useRef(null);
  useEffect(() => { setState(null); return () => stop.current?.abort(); }, [JSON.stringify([where, row, number])]);
  if (!where.model) return null;
  const start = async () => {
    stop.current?.abort();
    const control = new AbortController();
    stop.current = control;
    setState({ text: '', busy: true });
    const hear = (event) => setState((old) => (event.text != null ? { ...old, text: old.text + event.text } : { ...old, ...event, text: event.reply?.text ?? old.text }));
    try {
      await stream('try', { ...where, row, number, edits }, control.signal, hear);
      setState((old) => ({ ...old, busy: false }));
    } catch (error) {
      setState((old) => ({ ...old, busy: false, error: error.name === 'AbortError' ? '' : error.message }));
    }
  };
  const keep = () => send('keep', { ...where, row, reply: state.text, request }).then(
    (found) => setState({ ...state, kept: found.kept }), (error) => setState({ ...state, error: error.message }));
  return html`<section class="try" aria-label=${t('Try')}><div class="bar">
      <button type="button" class="primary" onClick=${start} disabled=${state?.busy}>${state ? t('Ask again') : t('Try')}: <bdi>${judge || where.model}</bdi></button>
      ${state?.busy ? html`<button type="button" onClick=${() => stop.current?.abort()}>${t('Stop')}</button><span class="soft writing" role="status">${t('writing …')}</span>` : null}
      ${state?.reply ? html`<button type="button" onClick=${keep} disabled=${Boolean(state.kept)}>${t('Keep as a row')}</button>` : null}
      ${state?.kept ? html`<span class="soft" role="status">${t('Kept in {file}', { file: state.kept })}</span>` : null}</div>
    <div aria-live="polite">${state && (state.text || state.reply) ? html`<h4>${t('Reply')}</h4>` : null}
      ${state?.text ? html`<${Text} text=${state.text} />` : state?.reply ? html`<p class="say empty">${t('empty')}</p>` : null}
      ${state?.reply?.reasoning ? html`<details><summary>${t('Reasoning')}</summary><${Text} text=${state.reply.reasoning} /></details>` : null}
      ${state?.reply ? html`<${Facts} facts=${[[t('outcome'), `${t(state.reply.outcome)}${state.reply.reason ? ` (${state.reply.reason})` : ''}`], ...state.reply.facts.map(([name, words]) => [t(name), words])]} />` : null}
      ${state?.scored ? html`<${Logprobs} scored=${state.scored} />` : null}
      <${Problem} error=${state?.error} /></div></section>`;
};
