/* Search without a server. Browsers start no worker for a page that was opened as a file, so that there the script of
   the search runs in a hidden frame instead, which passes messages on as a worker would. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.waiting = [];
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = this.inside.document.createElement("script");
      script.src = url;
      script.onload = () => {
        const held = this.waiting;
        this.waiting = null;
        held.forEach((data) => this.postMessage(data));
      };
      this.inside.document.body.append(script);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
