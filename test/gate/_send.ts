import { request } from "node:http";

/** A request as it goes over the wire: nothing is added to it. */
export interface Sent {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | string;
  /** Leaves the body's length unsaid. */
  readonly chunked?: boolean;
}

export interface Got {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly text: string;
}

/** Agent2Agent wants it with every request; other routes ignore it. */
const VERSION = { "a2a-version": "1.0" };
/** Silence after which a live stream is assumed to have sent everything, milliseconds. */
const SILENCE = 250;

/** Sends a request over a connection of its own and reads the answer; of a live stream, what it tells at first. */
export function send(url: string, { method, path, headers = {}, body, chunked = false }: Sent): Promise<Got> {
  const framing: Record<string, string> = chunked
    ? { "transfer-encoding": "chunked" }
    : body === undefined
      ? {}
      : { "content-length": String(Buffer.byteLength(body)) };
  return new Promise((resolve, reject) => {
    const sending = request(url + path, {
      method,
      agent: false,
      headers: { ...framing, ...VERSION, ...headers },
    });
    sending.on("error", reject);
    sending.on("response", (response) => {
      let text = "";
      let silence: NodeJS.Timeout | undefined;
      const finish = (): void => {
        clearTimeout(silence);
        // A body that the service no longer reads is aborted.
        sending.off("error", reject).on("error", () => {});
        response.destroy();
        const entries = Object.entries(response.headers).map(([name, value]) => [name, String(value)]);
        resolve({ status: response.statusCode ?? 0, headers: Object.fromEntries(entries), text });
      };
      const isStream = response.headers["content-type"]?.startsWith("text/event-stream");
      if (isStream) silence = setTimeout(finish, SILENCE);
      response.setEncoding("utf8").on("data", (part: string) => {
        text += part;
        silence?.refresh();
      });
      response.on("end", finish).on("error", finish);
    });
    sending.end(body);
  });
}
