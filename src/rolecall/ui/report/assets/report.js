// Draws the rows of a report on demand.
(() => {
  const data = (id) => JSON.parse(document.getElementById(id).textContent);
  const about = data('about');
  const texts = data('texts');
  const rows = data('packed');
  const PER_PAGE = 50;
  const SLICE_MS = 24;
  const SHORT = 600;
  const FOLD_FROM = 8;
  const [PAIR, ROW, OUTCOME, VERDICT, SCORE, PROMPTS, REPLIES, REASONING, PREDICTION, EXTRACTED, GOLD, REASON, MORE] =
    Array.from({ length: 13 }, (_, at) => at);
  const [ASKED, IN_A_SHOT] = [1, 2];
  const OK = about.outcomes.findIndex(([name]) => name === 'ok');
  const FILTERS = ['dataset', 'model', 'outcome', 'verdict', 'where', 'q'];
  const DIFFER = 'readings differ';
  const unique = (list) => [...new Set(list)];
  const datasets = unique(about.pairs.map(([dataset]) => dataset));
  const models = unique(about.pairs.map(([, model]) => model));

  const { drawText, drawRead, drawPrompt } = Draw;
  // Texts of data are nodes, made by drawText; plain strings are the page's own words, in its language.
  const word = (text) => (typeof text === 'string' && about.words?.[text]) || text;
  const make = (name, attributes, ...nodes) => {
    const worded = { ...attributes };
    for (const key of ['aria-label', 'placeholder', 'title']) if (key in worded) worded[key] = word(worded[key]);
    return Draw.make(name, worded, ...nodes.map(word));
  };
  if (about.words) Draw.language.translate = (text) => word(text);

  // ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────
  const pairOf = (row) => about.pairs[row[PAIR]];
  const nameOf = (row) => ({ dataset: pairOf(row)[0], model: pairOf(row)[1], row: String(row[ROW]) });
  const promptText = ([, , blocks]) =>
    blocks.map(([, extra, runs]) => extra + runs.filter((_, at) => at % 2 === 0).map((t) => texts[t]).join('')).join('\n');
  const parts = {
    prompt: (row) => row[PROMPTS].map(promptText).join('\n'),
    reply: (row) => row[REPLIES].join('\n'),
    reasoning: (row) => row[REASONING].join('\n'),
    answer: (row) => [row[EXTRACTED], row[GOLD], row[PREDICTION]].filter((text) => text != null).join('\n'),
    reason: (row) => row[REASON],
  };
  const everything = (row) => Object.values(parts).map((part) => part(row)).join('\n');
  const fromWord = (text) => (text.length > 240 ? `… ${text.slice(-240).replace(/^\S*\s+/, '')}` : text);
  const snippet = (row) => {
    const blocks = row[PROMPTS].length ? row[PROMPTS][row[PROMPTS].length - 1][2] : [];
    const runs = blocks.flatMap(([, , list]) => list);
    let asked = '';
    for (let at = 0; at < runs.length && asked.length < 240; at += 2)
      if (about.origins[runs[at + 1]][3] === ASKED) asked += (asked ? ' ' : '') + texts[runs[at]];
    if (!asked && runs.length) asked = fromWord(texts[runs[runs.length - 2]]);
    return asked.slice(0, 240).replace(/\s+/g, ' ').trim() || row[REASON] || '(no prompt kept)';
  };
  const number = (value) => value.toLocaleString('en', { maximumSignificantDigits: 3 });
  const verdict = (row) => {
    if (row[OUTCOME] !== OK && row[VERDICT] > 1) return [about.outcomes[row[OUTCOME]][1], 'bad'];
    const word = about.verdicts[row[VERDICT]];
    const also = row[OUTCOME] === OK ? '' : ` (${about.outcomes[row[OUTCOME]][1]})`;
    return { correct: [`✓ correct${also}`, 'correct'], wrong: [`✗ wrong${also}`, 'wrong'], scored: [`score ${number(row[SCORE] ?? 0)}`, ''] }[word] || [word, ''];
  };
  const badge = (row) => {
    const [words, kind] = verdict(row);
    return make('span', { class: `badge ${kind}` }, words);
  };

  // ── state ───────────────────────────────────────────────────────────────────────────────────────────────────────
  const state = { filters: {}, found: [], page: 0, open: -1, blanks: false, fold: false, search: 0 };
  const order = rows.map((_, at) => at).sort((a, b) => rows[a][PAIR] - rows[b][PAIR] || rows[a][ROW] - rows[b][ROW]);
  const same = new Map();
  for (const at of order) {
    const key = JSON.stringify([pairOf(rows[at])[0], rows[at][ROW]]);
    if (!same.has(key)) same.set(key, []);
    same.get(key).push(at);
  }

  const fits = (row) => {
    const { dataset, model, outcome, verdict: said } = state.filters;
    const [ofDataset, ofModel] = pairOf(row);
    return (!dataset || ofDataset === dataset) && (!model || ofModel === model) &&
      (!outcome || about.outcomes[row[OUTCOME]][0] === outcome) && (!said || (said === DIFFER ? row[MORE].beside : about.verdicts[row[VERDICT]] === said));
  };

  // Searching goes in slices, so that the page stays alive; a newer search ends an older one.
  const search = (wanted, options) => {
    const mine = ++state.search;
    const query = (state.filters.q || '').toLowerCase();
    const look = parts[state.filters.where] || everything;
    const candidates = order.filter((at) => fits(rows[at]));
    state.page = 0;
    if (!query) { state.found = candidates; finish(wanted, options); return; }
    state.found = [];
    let at = 0;
    const slice = () => {
      if (mine !== state.search) return;
      const until = performance.now() + SLICE_MS;
      while (at < candidates.length && performance.now() < until) {
        if (look(rows[candidates[at]]).toLowerCase().includes(query)) state.found.push(candidates[at]);
        at += 1;
      }
      if (at < candidates.length) { count(` of ${at.toLocaleString('en')} searched …`); setTimeout(slice); } else finish(wanted, options);
    };
    slice();
  };
  const finish = (wanted, { remember = false, scroll = false } = {}) => {
    const at = wanted ? state.found.findIndex((row) => Object.entries(wanted).every(([key, value]) => nameOf(rows[row])[key] === value)) : -1;
    open(at >= 0 ? at : state.found.length ? 0 : -1, { remember, redraw: true });
    if (scroll) document.getElementById('rows').scrollIntoView();
  };

  // ── the page ────────────────────────────────────────────────────────────────────────────────────────────────────
  const browser = document.getElementById('browser');
  const choice = (name, label, options) => {
    const box = make('select', { name, onchange: () => changed() }, make('option', { value: '' }, 'all'),
      ...options.map(([value, words]) => make('option', { value }, ...drawText(words))));
    return make('label', {}, label, box);
  };
  const filters = make('form', { class: 'filters', role: 'search', 'aria-label': 'Filter the rows', onsubmit: (event) => event.preventDefault() },
    choice('dataset', 'Dataset', datasets.map((name) => [name, name])),
    choice('model', 'Model', models.map((name) => [name, name])),
    choice('outcome', 'Outcome', about.outcomes.filter((_, at) => rows.some((row) => row[OUTCOME] === at))),
    choice('verdict', 'Verdict', about.verdicts.filter((_, at) => rows.some((row) => row[VERDICT] === at)).concat(rows.some((row) => row[MORE].beside) ? [DIFFER] : []).map((word) => [word, word])),
    make('label', { class: 'wide' }, 'Search', make('input', { type: 'search', name: 'q', placeholder: 'Words in any row', autocomplete: 'off', spellcheck: 'false', oninput: () => soon() })),
    choice('where', 'Search in', Object.keys(parts).map((name) => [name, name])),
    make('button', { type: 'reset', onclick: () => setTimeout(changed) }, 'Clear'));
  const option = (name, words) => make('label', {}, make('input', { type: 'checkbox', name, onchange: (event) => { state[name] = event.target.checked; show(); } }), words);
  const tools = make('div', { class: 'tools', role: 'group', 'aria-label': 'How prompts are shown' }, option('fold', 'fold examples'), option('blanks', 'show blanks'));
  const total = make('p', { class: 'count', role: 'status', 'aria-live': 'polite' });
  const list = make('div', { class: 'list', role: 'listbox', tabindex: '0', 'aria-label': 'Rows' });
  const back = make('button', { type: 'button', onclick: () => turn(-1) }, '‹ Previous');
  const on = make('button', { type: 'button', onclick: () => turn(1) }, 'Next ›');
  const where = make('span');
  const detail = make('article', { class: 'detail', 'aria-label': 'The row that is open', tabindex: '-1' });
  const key = (name) => make('kbd', {}, name);
  browser.append(filters, make('div', { class: 'split' },
    make('div', { class: 'side' }, total, list, make('div', { class: 'pager' }, back, where, on),
      make('p', { class: 'keys' }, key('j'), ' ', key('k'), ' next, previous row · ', key('n'), ' ', key('p'), ' page · ', key('/'), ' search')),
    make('div', {}, tools, detail)));
  browser.hidden = false;

  const rowsCount = (count) => `${count.toLocaleString('en')} ${count === 1 ? 'row' : 'rows'}`;
  const count = (more) => {
    const found = state.found.length;
    total.textContent = found === rows.length ? rowsCount(found) : `${found.toLocaleString('en')} of ${rowsCount(rows.length)}${more || ''}`;
  };
  const drawList = () => {
    const first = state.page * PER_PAGE;
    const pages = Math.max(1, Math.ceil(state.found.length / PER_PAGE));
    list.replaceChildren(...state.found.slice(first, first + PER_PAGE).map((at, place) => item(rows[at], first + place)));
    if (!state.found.length) list.append(make('p', { class: 'item' }, 'No matching rows.'));
    where.textContent = `page ${state.page + 1} of ${pages.toLocaleString('en')}`;
    back.disabled = state.page === 0;
    on.disabled = state.page >= pages - 1;
    count();
  };
  const item = (row, place) => {
    const { dataset, model } = nameOf(row);
    return make('div', { class: 'item', role: 'option', id: `item-${place}`, 'aria-selected': 'false', onclick: () => open(place, { jump: true }) },
      make('div', { class: 'top' }, make('bdi', {}, ...drawText(`${dataset} · ${row[ROW]} · ${model}`)), badge(row)),
      make('p', {}, ...drawText(snippet(row), (state.filters.q || '').toLowerCase())));
  };

  const say = (text, words, place) => text == null || text === ''
    ? make('p', { class: 'say empty' }, words || 'empty')
    : make('div', { class: 'say', dir: 'auto' }, ...drawRead(text, place, (state.filters.q || '').toLowerCase(), state.blanks));
  const titled = (title, ...nodes) => make('div', {}, make('h4', {}, title), ...nodes);

  const NOTES = ['', 'The config now produces a different prompt; this is what was sent, without origins.', 'This is what was sent. Origins need the config: rolecall report RUN --html FILE --config CONFIG.'];
  const promptNode = ([, note, blocks]) => drawPrompt({
    note: NOTES[note],
    blocks: blocks.map(([heading, extra, runs]) => ({ heading, extra, spans: spansOf(runs) })),
  }, about.legend, { query: (state.filters.q || '').toLowerCase(), blanks: state.blanks, fold: state.fold });
  const spansOf = (runs) => {
    const spans = [];
    for (let at = 0; at < runs.length; at += 2) {
      const [style, label, group, place, name] = about.origins[runs[at + 1]];
      spans.push({ text: texts[runs[at]], style, label, group, name, inShot: place === IN_A_SHOT });
    }
    return spans;
  };
  const prompts = (row) => {
    const all = row[PROMPTS];
    if (!all.length) return titled('Prompt', say('', 'not kept'));
    if (all.length === 1) return titled('Prompt', promptNode(all[0]));
    const chosen = all.findIndex(([title]) => title === `label ${row[PREDICTION] ?? row[EXTRACTED]}`);
    const shown = chosen >= 0 ? chosen : all.length - 1;
    return titled(`Prompts (${all.length})`, ...all.map((prompt, at) => {
      const box = make('details', { open: at === shown }, make('summary', {}, prompt[0] || `request ${at + 1}`));
      const fill = () => { if (box.open && box.children.length < 2) box.append(promptNode(prompt)); };
      box.addEventListener('toggle', fill);
      fill();
      return box;
    }));
  };
  const facts = (row) => {
    const more = row[MORE];
    const lines = [
      ['input', more.in && `${more.in.toLocaleString('en')} tokens${more.expected ? ` (${more.expected.toLocaleString('en')} expected)` : ''}`], ['answered by', more.served], ['output', more.out && `${more.out.toLocaleString('en')} tokens`],
      ['from cache', more.cached && `${more.cached.toLocaleString('en')} tokens`], ['reasoning', more.thought && `${more.thought.toLocaleString('en')} tokens`],
      ['time', more.seconds && `${number(more.seconds)} s`], ['examples', more.shots && `training rows ${more.shots.join(', ')}`],
      ['dropped', more.dropped && `${more.dropped} ${more.dropped === 1 ? 'example' : 'examples'}, to fit`], ['belongs to', more.cluster], ['fingerprint', more.fingerprint],
    ].filter(([, words]) => words);
    return make('dl', { class: 'known' }, ...lines.flatMap(([name, words]) => [make('dt', {}, name), make('dd', {}, ...drawText(words))]));
  };
  const others = (row) => {
    const rest = same.get(JSON.stringify([pairOf(row)[0], row[ROW]])).filter((at) => rows[at] !== row);
    return rest.length ? titled('The same row', make('div', { class: 'others' }, ...rest.map((at) =>
      make('button', { type: 'button', onclick: () => visit(at) }, make('bdi', {}, ...drawText(pairOf(rows[at])[1])), ' ', badge(rows[at]))))) : null;
  };

  // ── perplexity: the labels with their losses, the likeliest first ───────────────────────────────────────────────
  const losses = (row) => {
    const [heads, ...labels] = row[MORE].losses;
    const ordered = [...labels].sort((one, other) => one[1] - other[1]);
    const line = (one, place) => make('tr', { class: place ? '' : 'chosen' },
      make('th', { scope: 'row' }, make('bdi', {}, ...drawText(one[0])), place ? '' : ' ', place ? '' : make('span', { class: 'badge' }, 'chosen'),
        one[0] === row[GOLD] ? ' ' : '', one[0] === row[GOLD] ? make('span', { class: 'badge correct' }, 'gold') : ''),
      make('td', {}, one[1].toFixed(3), place ? make('i', {}, ` +${(one[1] - ordered[0][1]).toFixed(3)}`) : ''),
      ...one.slice(2).map((value) => make('td', {}, value == null ? '–' : Number.isInteger(value) ? value.toLocaleString('en') : value.toFixed(3))));
    return titled('Losses (the lowest decides)', make('div', { class: 'scroll', tabindex: '0' }, make('table', { class: 'losses' },
      make('thead', {}, make('tr', {}, ...heads.map((name) => make('th', { scope: 'col' }, name)))),
      make('tbody', {}, ...ordered.map(line)))));
  };

  // ── dialogues: what is new in each turn's prompt, the reply, what was expected, and the judge's word ─────────────
  const askedIn = ([, , blocks]) => blocks.flatMap(([, , runs]) => runs.filter((_, at) => at % 2 === 0 && about.origins[runs[at + 1]][3] === ASKED).map((t) => texts[t]));
  const questions = (row) => row[PROMPTS].map((prompt, at, all) => {
    const asked = askedIn(prompt);
    if (asked.length) return asked.slice(at ? askedIn(all[at - 1]).length : 0).filter((text) => text !== row[REPLIES][at - 1]).join('\n');
    const [heading, , runs] = prompt[2][prompt[2].length - 1];
    const words = runs.filter((_, place) => place % 2 === 0).map((t) => texts[t]).join('');
    if (heading || !at) return words;
    const before = words.lastIndexOf(row[REPLIES][at - 1]);
    return before < 0 || !row[REPLIES][at - 1] ? words : words.slice(before + row[REPLIES][at - 1].length);
  });
  const cutOff = (row, at) => row[MORE].ended?.[at] === 'length' ? ' (cut off by max_out_len)' : '';
  const isDialogue = (row) => row[REPLIES].length > 1 && row[REPLIES].length === row[PROMPTS].length;
  const dialogue = (row) => {
    const golds = row[MORE].golds || [];
    const judge = row[MORE].judge || [];
    const verdicts = judge.length === row[REPLIES].length ? judge : [];
    return titled('Dialogue', make('ol', { class: 'talk' }, ...questions(row).flatMap((question, at) => [
      make('li', { class: 'asked' }, make('p', { class: 'role' }, `turn ${at + 1}`), say(question)),
      make('li', { class: 'said' }, make('p', { class: 'role' }, `reply${cutOff(row, at)}`), say(row[REPLIES][at], 'an empty reply', (row[MORE].read || [])[at]),
        golds[at] == null && !verdicts[at] ? '' : make('p', { class: 'expected' }, ...(golds[at] == null ? [] : ['gold: ', make('bdi', {}, ...drawText(golds[at]))]),
          ...(verdicts[at] ? [golds[at] == null ? '' : ' · ', 'judge: ', make('bdi', {}, ...drawText(verdicts[at][1]))] : []))),
    ])));
  };

  const show = () => {
    const row = rows[state.found[state.open]];
    if (!row) { detail.replaceChildren(make('p', { class: 'note' }, 'No row is open.')); return; }
    const { dataset, model } = nameOf(row);
    const talk = isDialogue(row);
    const answers = [['Gold', talk && row[MORE].golds ? null : row[GOLD]], ['Extracted', talk ? null : row[EXTRACTED]], ['Prediction', talk ? null : row[PREDICTION]]].filter(([, text]) => text != null);
    const many = row[REPLIES].length > 1;
    detail.replaceChildren(
      make('button', { type: 'button', class: 'up', onclick: () => filters.scrollIntoView() }, '↑ list'),
      make('h3', {}, make('span', {}, make('bdi', {}, ...drawText(dataset)), ' × ', make('bdi', {}, ...drawText(model)), ` · row ${row[ROW]}`), badge(row)),
      ...(row[REASON] && row[OUTCOME] !== OK ? [make('p', { class: 'note missing', dir: 'auto' }, ...drawText(row[REASON]))] : []),
      row[MORE].beside ? make('p', { class: 'note missing', dir: 'auto' }, ...drawText(row[MORE].beside)) : '',
      answers.length ? make('div', { class: 'answers' }, ...answers.map(([name, text]) => titled(name, say(text)))) : '',
      row[MORE].losses ? losses(row) : '',
      talk ? dialogue(row) : '',
      ...(talk ? [] : row[REPLIES]).map((reply, at) => titled(`${many ? `Reply ${at + 1}` : 'Reply'}${cutOff(row, at)}`, say(reply, 'an empty reply', (row[MORE].read || [])[at]))),
      ...row[REASONING].filter(Boolean).map((thought, at, all) => make('details', {}, make('summary', {}, all.length > 1 ? `Reasoning ${at + 1}` : 'Reasoning', ` (${thought.length.toLocaleString('en')} characters)`), say(thought))),
      ...(row[MORE].judge || []).flatMap(([prompt, reply], at, all) => {
        const box = make('details', {}, make('summary', {}, all.length > 1 ? `Judge's prompt ${at + 1}` : "Judge's prompt"));
        box.addEventListener('toggle', () => { if (box.open && box.children.length < 2) box.append(promptNode(prompt)); });
        return [talk && all.length === row[REPLIES].length ? '' : titled(all.length > 1 ? `Judge ${at + 1}` : 'Judge', say(reply, 'an empty reply')), box];
      }),
      row[MORE].details ? make('details', { open: row[MORE].details.length < SHORT }, make('summary', {}, 'Details'), say(row[MORE].details)) : '',
      others(row) || '',
      prompts(row),
      titled('About this row', facts(row)));
  };

  const open = (place, { remember = true, redraw = false, jump = false } = {}) => {
    state.open = place;
    state.page = Math.max(0, Math.floor(place / PER_PAGE));
    if (!document.getElementById(`item-${place}`) || redraw) drawList();
    list.querySelectorAll('[aria-selected=true]').forEach((node) => node.setAttribute('aria-selected', 'false'));
    const node = document.getElementById(`item-${place}`);
    if (node) {
      node.setAttribute('aria-selected', 'true');
      list.setAttribute('aria-activedescendant', node.id);
      const { top, bottom } = list.getBoundingClientRect();
      const box = node.getBoundingClientRect();
      if (box.top < top) list.scrollTop -= top - box.top;
      else if (box.bottom > bottom) list.scrollTop += box.bottom - bottom;
    }
    show();
    if (remember) write();
    if (jump && matchMedia('(max-width: 56rem)').matches) detail.scrollIntoView();
  };
  const step = (by) => {
    const to = Math.min(state.found.length - 1, Math.max(0, state.open + by));
    if (state.found.length && to !== state.open) open(to);
  };
  const turn = (by) => {
    const pages = Math.ceil(state.found.length / PER_PAGE);
    const page = Math.min(pages - 1, Math.max(0, state.page + by));
    if (page !== state.page && state.found.length) { open(page * PER_PAGE); list.scrollTop = 0; }
  };
  const visit = (at) => {
    if (!state.found.includes(at)) {
      const [, model] = pairOf(rows[at]);
      state.filters = { dataset: pairOf(rows[at])[0], model };
      fill();
      search(nameOf(rows[at]), { remember: true });
      return;
    }
    open(state.found.indexOf(at));
  };

  // ── address: filters and the open row stand in it, so a view can be linked to ───────────────────────────────────
  const fill = () => FILTERS.forEach((name) => { filters.elements[name].value = state.filters[name] || ''; });
  const collect = () => {
    state.filters = Object.fromEntries(FILTERS.map((name) => [name, filters.elements[name].value]).filter(([, value]) => value));
  };
  const write = () => {
    const row = rows[state.found[state.open]];
    const at = row ? { at: JSON.stringify([...pairOf(row), row[ROW]]) } : {};
    history.replaceState(null, '', `#${new URLSearchParams({ ...state.filters, ...at })}`);
  };
  const read = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    state.filters = Object.fromEntries(FILTERS.map((name) => [name, given.get(name)]).filter(([, value]) => value));
    fill();
    collect();
    let wanted = null;
    try {
      const [dataset, model, row] = JSON.parse(given.get('at'));
      wanted = { dataset, model, row: String(row) };
    } catch { /* no row is named */ }
    search(wanted, { scroll: Boolean(wanted || Object.keys(state.filters).length) });
  };
  const changed = () => { collect(); search(null, { remember: true }); };
  let waiting = 0;
  const soon = () => { clearTimeout(waiting); waiting = setTimeout(changed, 180); };

  const isSection = () => ['', '#scores', '#outcomes', '#tokens', '#lengths', '#rows'].includes(location.hash);
  addEventListener('hashchange', () => { if (!isSection()) read(); });
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (typing) { if (event.key === 'Escape') event.target.blur(); return; }
    const inList = event.target === list;
    const act = {
      j: () => step(1), k: () => step(-1), n: () => turn(1), p: () => turn(-1), '/': () => filters.elements.q.focus(),
      ...(inList ? { ArrowDown: () => step(1), ArrowUp: () => step(-1), PageDown: () => turn(1), PageUp: () => turn(-1),
        Home: () => open(0), End: () => open(state.found.length - 1), Enter: () => detail.focus() } : {}),
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  read();

  // ── groups: their members are folded where there are many, and shown at a click ─────────────────────────────────
  for (const button of document.querySelectorAll('[data-fold]')) {
    const members = [...document.querySelectorAll('[data-group]')].filter((row) => row.dataset.group === button.dataset.fold);
    const set = (open) => {
      button.setAttribute('aria-expanded', String(open));
      button.textContent = open ? '▾' : '▸';
      button.setAttribute('aria-label', `${members.length} scores of ${button.dataset.fold}`);
      members.forEach((row) => { row.hidden = !open; });
    };
    button.hidden = false;
    button.addEventListener('click', () => set(button.getAttribute('aria-expanded') !== 'true'));
    set(members.length < FOLD_FROM);
  }
})();
