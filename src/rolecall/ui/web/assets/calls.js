// The calls of an application as they happen: requests by origin, replies, tools, retries and cost.
import { html, t, useState, useEffect, ask } from './lib.js';
import { Drawn, Text, Problem } from './parts.js';
import { drawByOrigin } from './prompt.js';

const EVERY = 1000;
const MOST = 200;
const WORDS = { request: t('request'), reply: t('reply'), retry: t('retry'), tool_call: t('tool call'), tool_result: t('tool result'),
  tool_failure: t('tool failure'), bad_answer: t('bad answer'), fallback: t('fallback'), trim: t('trimmed'), usage: t('usage'), failure: t('failure') };
const tellUsage = (event) => [t('{input} input tokens, {output} output tokens', { input: event.input ?? '?', output: event.output ?? '?' }), event.cost != null ? `$${event.cost.toFixed(6)}` : ''].filter(Boolean).join(' · ');
const Step = ({ event, legend }) => html`<section class="step"><h4>${WORDS[event.kind] || event.kind}${event.name ? ` · ${event.name}` : ''}${event.model ? ` · ${event.model}` : ''}${event.outcome && event.outcome !== 'ok' ? ` · ${event.outcome}` : ''}</h4>
  ${event.blocks ? html`<${Drawn} deps=${[event]} make=${() => drawByOrigin({ blocks: event.blocks, explanations: {}, facts: [] }, legend, { query: '' })} />` : null}
  ${event.thinking ? html`<h5>${t('thinking')}</h5><${Text} text=${event.thinking} />${event.text ? html`<h5>${t('answer')}</h5>` : null}` : null}
  ${event.kind === 'usage' ? html`<p class="soft">${tellUsage(event)}</p>` : event.text ? html`<${Text} text=${event.text} />` : null}</section>`;

const Summary = ({ id, events }) => {
  const [first, last] = [events[0], events[events.length - 1]];
  const outcome = events.map((event) => event.outcome).filter(Boolean).pop();
  const ended = { usage: outcome !== 'ok' && outcome, failure: WORDS.failure }[last.kind] ?? '…';
  const models = [...new Set(events.map((event) => event.kind === 'request' && event.model).filter(Boolean))].join(' → ');
  const facts = [new Date(first.at * 1000).toLocaleTimeString(), models, ended, last.cost != null && `$${last.cost.toFixed(6)}`, id].filter(Boolean).join(' · ');
  return html`<summary><bdi>${first.asked ? first.asked.slice(0, 120) : id}</bdi><span class="soft"> · ${facts}</span></summary>`;
};

export const Calls = ({ session }) => {
  const [calls, setCalls] = useState([]);
  const [error, setError] = useState('');
  useEffect(() => {
    let [after, stopped, timer] = [0, false, null];
    const poll = async () => {
      try {
        const found = await ask('calls', { after });
        after = found.after;
        if (found.events.length) {
          setCalls((before) => {
            const grouped = new Map(before);
            for (const event of found.events) grouped.set(event.call, [...(grouped.get(event.call) || []), event]);
            return [...grouped].slice(-MOST);
          });
        }
        setError('');
      } catch (failure) { setError(failure.message); }
      if (!stopped) timer = setTimeout(poll, EVERY);
    };
    poll();
    return () => { stopped = true; clearTimeout(timer); };
  }, []);
  return html`<div class="calls" aria-live="polite">${error ? html`<${Problem} error=${error} />` : null}
    ${calls.length ? null : html`<p class="note">${t('No calls yet. They appear here as the application makes them.')}</p>`}
    ${[...calls].reverse().map(([id, events], at) => html`<details key=${id} open=${at === 0}><${Summary} id=${id} events=${events} />
      ${events.map((event) => html`<${Step} event=${event} legend=${session.legend} />`)}</details>`)}</div>`;
};
