import { Agent, request } from "node:http";

/** One request to start a job. */
export interface StartRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

export interface Measured {
  readonly jobs: number;
  /** Jobs per second. */
  readonly rate: number;
  /** Milliseconds from start to result. */
  readonly median: number;
  /** The same, of the slowest of a hundred. */
  readonly p99: number;
}

interface Load {
  readonly clients: number;
  /** How long they start jobs, and how many at most: one of both is needed. */
  readonly seconds?: number;
  readonly most?: number;
}

/** Makes clients start jobs, each the next one when it has the result of the last. */
export async function load(
  next: () => StartRequest,
  { clients, seconds = Number.POSITIVE_INFINITY, most = Number.POSITIVE_INFINITY }: Load,
): Promise<Measured> {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const times: number[] = [];
  const begun = performance.now();
  const until = begun + seconds * 1000;
  let left = most;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (performance.now() < until && left-- > 0) {
        const sent = performance.now();
        const { result } = (await send(next(), agent)) as { result: { result: number } };
        if (result.result !== 41) throw new Error(`A job gave ${JSON.stringify(result)}`);
        times.push(performance.now() - sent);
      }
    }),
  );
  const took = (performance.now() - begun) / 1000;
  agent.destroy();
  return { jobs: times.length, rate: times.length / took, median: median(times), p99: p99(times) };
}

/** Sends a request and resolves with the JSON of the response. */
export function send({ url, headers, body }: StartRequest, agent: Agent): Promise<unknown> {
  const text = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const all = { ...headers, "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    const sent = request(url, { method: "POST", agent, headers: all }, (response) => {
      let received = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        received += chunk;
      });
      response.on("end", () => {
        if (response.statusCode! < 300) resolve(JSON.parse(received));
        else reject(new Error(`${response.statusCode} ${received}`));
      });
    });
    sent.on("error", reject);
    sent.end(text);
  });
}

function p99(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)]!;
}

/** The middle value; for an even number, the mean of the two. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return (sorted[Math.floor(middle)]! + sorted[Math.ceil(middle) - 1]!) / 2;
}
