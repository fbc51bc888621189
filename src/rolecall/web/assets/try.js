// Try: send the prompt that is shown to its model and watch the reply as it is written.
import { html, t, send, useState, useEffect, useRef, Text, Facts, Problem } from './lib.js';

export const Try = ({ where, row, number, edits, request }) => {
  const [state, setState] = useState(null);
  const stop = useRef(null);
  const key = JSON.stringify([where, row, number]);
  useEffect(() => { setState(null); return () => stop.current?.abort(); }, [key]);
  if (!where.model) return null;
  const start = async () => {
    stop.current?.abort();
    const control = new AbortController();
    stop.current = control;
    setState({ text: '', busy: true });
    try {
      const answer = await fetch('/api/try', { method: 'POST', signal: control.signal, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ ...where, row, number, edits }) });
      if (!answer.ok) throw new Error((await answer.json()).error || `HTTP ${answer.status}`);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const lines = (rest + part.value).split('\n');
        rest = lines.pop();
        for (const line of lines.filter(Boolean)) {
          const event = JSON.parse(line);
          if (event.text != null) setState((old) => ({ ...old, text: old.text + event.text }));
          else setState((old) => ({ ...old, ...event, text: event.reply?.text ?? old.text, busy: false }));
        }
      }
      setState((old) => ({ ...old, busy: false }));
    } catch (error) {
      setState((old) => ({ ...old, busy: false, error: error.name === 'AbortError' ? '' : error.message }));
    }
  };
  const keep = () => send('keep', { ...where, row, edits: [], reply: state.text, request }).then((found) => setState({ ...state, kept: found.kept }), (error) => setState({ ...state, error: error.message }));
  return html`<section class="try" aria-label=${t('Try')}><div class="bar">
      <button type="button" onClick=${start} disabled=${state?.busy}>${t('Try')}: <bdi>${where.model}</bdi></button>
      ${state?.busy ? html`<button type="button" onClick=${() => stop.current?.abort()}>Stop</button><span class="soft" role="status">…</span>` : null}
      ${state?.reply ? html`<button type="button" onClick=${keep}>Keep as a row</button>` : null}${state?.kept ? html`<span class="soft" role="status">Kept in ${state.kept}</span>` : null}</div>
    <div aria-live="polite">${state && (state.text || state.reply) ? html`<h4>${t('Reply')}</h4><${Text} text=${state.text} />` : null}
      ${state?.reply?.reasoning ? html`<details><summary>${t('Reasoning')}</summary><${Text} text=${state.reply.reasoning} /></details>` : null}
      ${state?.reply && !state.text ? html`<p class="say empty">an empty reply</p>` : null}
      ${state?.reply ? html`<${Facts} facts=${[['outcome', `${state.reply.outcome}${state.reply.reason ? ` (${state.reply.reason})` : ''}`], ...state.reply.facts]} />` : null}
      ${state?.scored ? html`<h4>Log-probabilities (mean ${state.scored.mean?.toFixed(3)})</h4><div class="say logprobs">${state.scored.tokens.map(([text, value]) => html`<span title=${value == null ? 'not scored' : value.toFixed(3)} data-level=${value == null ? '' : Math.min(4, Math.floor(-value))}>${text}</span>`)}</div>` : null}
      <${Problem} error=${state?.error} /></div></section>`;
};
