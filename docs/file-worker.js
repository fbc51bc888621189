// Browsers refuse workers to pages that are opened from a file, and the search is one. Here its script runs in a hidden frame instead.
// The theme's worker looks for the name IFrameWorker, and takes its folder from the frame's script.
if (location.protocol === 'file:') {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement('iframe');
      frame.hidden = true;
      document.body.appendChild(frame);
      this.frame = frame.contentWindow;
      this.frame.postMessage = (data) => {
        const event = new MessageEvent('message', { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      this.frame.importScripts = (...urls) =>
        urls.reduce((before, one) => before.then(() => this.load(one)), Promise.resolve());
      this.ready = this.load(url).then(() => {
        for (const data of this.waiting.splice(0)) this.deliver(data);
        this.waiting = null;
      });
    }
    load(url) {
      return new Promise((done, fail) => {
        const script = this.frame.document.createElement('script');
        script.src = new URL(url, location).href;
        script.onload = done;
        script.onerror = fail;
        this.frame.document.body.appendChild(script);
      });
    }
    deliver(data) {
      const event = new MessageEvent('message', { data });
      this.frame.dispatchEvent(event);
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.deliver(data);
    }
    terminate() {
      this.frame.frameElement.remove();
    }
  };
}
