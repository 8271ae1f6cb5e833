import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type Address, connect, messageOf, send } from "./_client.ts";
import { listen } from "./_listen.ts";

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

export const HOSTILE: Record<string, Answer> = {
  hangs: () => {},
  "asks for an hour": (_, response) => void response.writeHead(503, { "retry-after": "3600" }).end(),
  drips: (_, response) => {
    response.writeHead(200);
    const timer = setInterval(() => response.write("."), 200);
    response.on("close", () => clearInterval(timer));
  },
  "sends without end": (_, response) => {
    const text = "x".repeat(1024 * 1024);
    const more = (): void => {
      while (response.write(text)) if (response.destroyed) return;
    };
    response.on("drain", more).writeHead(500);
    more();
  },
  redirects: (request, response) => void response.writeHead(307, { location: request.url }).end(),
  breaks: (request) => void request.socket.destroy(),
};

/** Twenty URLs, each with an origin of its own: those above, refused connections, and a server without TLS. */
export async function hostileUrls(): Promise<string[]> {
  const urls: string[] = [];
  for (const answer of Object.values(HOSTILE)) {
    for (let nth = 0; nth < 3; nth++) urls.push(await listen(createServer(answer)));
  }
  const gone = createServer();
  urls.push(await listen(gone), (await listen(createServer())).replace("http:", "https:"));
  gone.close();
  return urls;
}

/** A receiver that works, and what it got: lines of task and state. */
export async function receiver() {
  const got: string[] = [];
  const url = await listen(
    createServer(async (request, response) => {
      const { statusUpdate } = JSON.parse(Buffer.concat(await request.toArray()).toString());
      if (statusUpdate)
        got.push(`${statusUpdate.taskId} ${statusUpdate.status.state.slice("TASK_STATE_".length)}`);
      response.writeHead(204).end();
    }),
  );
  return { got, url };
}

export const configOf = (taskId: string, url: string, id = "") => ({
  ...{ tenant: "", id, taskId, url, token: `token of ${taskId}` },
  authentication: { scheme: "Bearer", credentials: "c1" },
});

let count = 0;
/** A task that changes three times, with these receivers. */
export async function work(address: Address, urls: readonly string[]): Promise<string> {
  const client = await connect(address);
  const { id } = await send(client, messageOf(`m${++count}`, [{ text: "A1" }]));
  for (const [at, url] of urls.entries()) {
    await client.createTaskPushNotificationConfig(configOf(id, url, `config-${at}`));
  }
  await send(client, messageOf(`m${++count}`, [{ text: "yes" }], id));
  await send(client, messageOf(`m${++count}`, [{ text: "5" }], id));
  return id;
}

/** What a receiver of such a task gets. */
export const statesOf = (id: string) =>
  ["WORKING", "INPUT_REQUIRED", "WORKING", "COMPLETED"].map((state) => `${id} ${state}`);
