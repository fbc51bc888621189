'use strict';
// Draws texts and prompts by origin; the report and the page of `rolecall web` share it. Data only ever becomes text
// nodes, never markup.
const Draw = (() => {
  const ACTIVE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/u;
  const BLANKS = { ' ': '·\u200b', '\t': '⇥\t', '\n': '⏎\n', '\u00a0': '⍽', '\u3000': '□□' };
  const LONG = 60000;
  const STEP = 200000;
  // The page sets `translate` to say the few words below in another language.
  const language = { translate: (text) => text };

  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
      else if (value === true) node.setAttribute(name, '');
      else if (value !== false && value != null) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child != null));
    return node;
  };

  // Characters that act (controls, direction marks) are written out; blanks can be shown; what was searched is marked.
  const drawText = (text, query, blanks) => {
    const nodes = [];
    const plain = (piece) => {
      if (!piece) return;
      const shown = blanks ? piece.replace(/[ \t\n\u00a0\u3000]/g, (blank) => BLANKS[blank]) : piece;
      nodes.push(document.createTextNode(shown));
    };
    const honest = (piece) => {
      if (!ACTIVE.test(piece)) return plain(piece);
      let kept = '';
      for (const character of piece) {
        if (!ACTIVE.test(character)) { kept += character; continue; }
        plain(kept);
        kept = '';
        const code = character.codePointAt(0);
        const name = code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? '␡' : `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
        nodes.push(make('span', { class: 'act', title: language.translate('an invisible character') }, name));
      }
      plain(kept);
    };
    if (!query) { honest(text); return nodes; }
    const folded = text.toLowerCase();
    let at = 0;
    for (let found = folded.indexOf(query); found >= 0; found = folded.indexOf(query, at)) {
      honest(text.slice(at, found));
      const before = nodes.length;
      honest(text.slice(found, found + query.length));
      nodes.push(make('mark', {}, ...nodes.splice(before)));
      at = found + query.length;
    }
    honest(text.slice(at));
    return nodes;
  };

  // A very long text is drawn piece by piece, so that a prompt of a million characters does not freeze the page.
  const drawLong = (text, query, blanks) => {
    if (text.length <= LONG) return drawText(text, query, blanks);
    let at = LONG;
    const more = make('button', { type: 'button', class: 'more' });
    const label = () => { more.textContent = language.translate('show {n} more characters').replace('{n}', (text.length - at).toLocaleString('en')); };
    more.addEventListener('click', (event) => {
      event.stopPropagation();
      more.before(...drawText(text.slice(at, at + STEP), query, blanks));
      at += STEP;
      if (at >= text.length) more.remove(); else label();
    });
    label();
    return [...drawText(text.slice(0, LONG), query, blanks), more];
  };

  // A reply with the characters underlined that its answer was read from: `place` is start, end, rule and certainty,
  // counted in characters, not in UTF-16 units.
  const drawRead = (text, place, query, blanks) => {
    const points = place ? [...text] : [];
    if (!place || place[1] > points.length || points.length > LONG) return drawLong(text, query, blanks);
    const [start, end, rule, certainty] = place;
    const part = (from, to) => drawText(points.slice(from, to).join(''), query, blanks);
    return [...part(0, start), make('u', { class: `read ${certainty}`, title: `${certainty}: ${rule}` }, ...part(start, end)), ...part(end)];
  };

  // `blocks` have a heading, extra keys as JSON, and spans: text, style (the number of a rule), label, group, name,
  // inShot. `legend` lists [group, meaning, style]. `onspan` hears which span was chosen,
  // `onhover` which one the mouse is over (null when it leaves).
  const drawPrompt = (prompt, legend, { query = '', blanks = false, fold = false, onspan = null, onhover = null } = {}) => {
    const groups = new Map();
    let folding = false;
    const choose = onspan && ((event, span) => { event.stopPropagation(); onspan(span, event.currentTarget); });
    const drawSpan = (span) => make('span', {
      class: `s${span.style}${span.special ? ' special' : ''}`, title: span.label,
      ...(onspan ? { role: 'button', tabindex: '0', onclick: (event) => choose(event, span),
        ...(onhover ? { onmouseenter: () => onhover(span), onmouseleave: () => onhover(null) } : {}),
        onkeydown: (event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); choose(event, span); } } } : {}),
    }, ...drawLong(span.text, query, blanks));
    const bodies = prompt.blocks.map(({ heading, extra, spans }) => {
      const words = make('div', { class: 'say', dir: 'auto' });
      for (const span of spans) {
        if (span.group) groups.set(span.group, (groups.get(span.group) || new Set()).add(span.name));
        if (fold && span.inShot) {
          if (!folding) words.append(make('span', { class: 'folded' }, language.translate('examples …')));
          folding = true;
          continue;
        }
        folding = false;
        words.append(drawSpan(span));
      }
      if (spans.length && !words.children.length) return '';
      return make('div', {}, heading ? make('p', { class: 'role' }, ...drawText(heading)) : null, words,
        extra ? make('div', { class: 'say', dir: 'auto' }, ...drawLong(extra, query, blanks)) : null);
    });
    const entries = legend.filter(([group]) => groups.has(group)).map(([group, meaning, style]) => {
      const names = [...groups.get(group)].filter(Boolean);
      return make('span', { class: `s${style}` }, ...drawText(names.length ? `${meaning} (${names.join(', ')})` : meaning));
    });
    return make('div', { class: 'prompt' }, prompt.note ? make('p', { class: 'note' }, prompt.note) : null,
      entries.length ? make('div', { class: 'origins', role: 'group', 'aria-label': language.translate('What the colours mean') }, ...entries) : null, ...bodies);
  };
  return { make, drawText, drawLong, drawRead, drawPrompt, language };
})();
