// Python in a worker: the interpreter and the package are files beside the page. Answers are those of the server.
import { loadPyodide } from '../pyodide/pyodide.mjs';

const start = async () => {
  const archive = fetch(new URL('../rolecall.zip', import.meta.url)).then((answer) => answer.arrayBuffer());
  const python = await loadPyodide({ indexURL: new URL('../pyodide/', import.meta.url).href });
  python.unpackArchive(await archive, 'zip', { extractDir: '/packages' });
  python.runPython("import sys; sys.path.insert(0, '/packages')");
  return python.pyimport('rolecall.ui.web.playground').Playground('/playground');
};
const ready = start();
onmessage = async ({ data: [id, link, path, body, chinese] }) => {
  try {
    const answer = (await ready).answer(link, path, body, chinese);
    const [status, text] = answer.toJs();
    answer.destroy();
    postMessage([id, status, text]);
  } catch (error) {
    postMessage([id, 500, JSON.stringify({ error: String(error.message || error) })]);
  }
};
