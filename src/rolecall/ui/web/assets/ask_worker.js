// The page without a server: its requests go to a worker of this browser, with the link of what was pasted.
const worker = new Worker(new URL('worker.js', import.meta.url), { type: 'module' });
const waiting = new Map();
let last = 0;
worker.onmessage = ({ data: [id, status, text] }) => { waiting.get(id)(new Response(text, { status })); waiting.delete(id); };
globalThis.askWorker = (path, { body = '', signal } = {}) => new Promise((resolve, reject) => {
  const link = new URLSearchParams(location.hash.split('?')[1] || '').get('paste') || '';
  last += 1;
  waiting.set(last, resolve);
  worker.postMessage([last, link, path, body, document.documentElement.lang === 'zh']);
  signal?.addEventListener('abort', () => reject(signal.reason));
});
