import { generateKeyPairSync } from "node:crypto";
import { SignJWT } from "jose";

const proxy = generateKeyPairSync("ec", { namedCurve: "P-256" });

/** What the proxy in front of the service sends with the requests of a person. */
export async function personHeaders(subject: string): Promise<Record<string, string>> {
  const claims = new SignJWT({ iss: "https://proxy.example", aud: "the-service", sub: subject });
  const signed = claims.setProtectedHeader({ alg: "ES256" }).setIssuedAt().setExpirationTime("5m");
  return { "x-person": await signed.sign(proxy.privateKey), accept: "application/json" };
}

/** A service with all that has routes. Each thing that its agents really do is a line of did.log, with its key. */
export const CONTROLLER = `
import { appendFileSync, existsSync } from "node:fs";
import { admin, createServer, defineAgent, defineChat, events, proxyAuth, webhooks } from "agent-control-service";
import { a2a } from "agent-control-service/a2a";
import { agUi } from "agent-control-service/agui";
import { mcp } from "agent-control-service/mcp";

// The key of a step is the same where it runs again because its process was killed.
const did = (what, key) => appendFileSync("did.log", what + " " + key + "\\n");
const isChanged = existsSync("changed");
const yes = [{ name: "approved", field_type: "BooleanField", required: true }];
const fields = [
  { name: "what", required: true },
  { name: "mode", default: "tell" },
];

const MODES = {
  async tell() {},
  async ask(job, what) {
    const item = await job.openCase({ id: "case-" + job.id, name: what });
    for (const key of ["first", "second"]) {
      await item.ask({ key, question: "Is it so?", fields: yes });
      await item.step(key + " answered", ({ idempotencyKey }) => did(key + " of " + what, idempotencyKey));
    }
    await item.close();
  },
  async wait(job, what) {
    const { data } = await job.waitFor(what);
    await job.step("got", ({ idempotencyKey }) => did("got " + data.n + " for " + what, idempotencyKey));
  },
  async fail(job, what) {
    await job.step("fail", () => { throw new Error("It was " + what); });
  },
  async spend(job, what) {
    for (const n of [1, 2, 3])
      await job.step("buy " + n, ({ idempotencyKey }) => did("bought " + n + " for " + what, idempotencyKey), { cost: 2 });
  },
  async change(job) {
    await job.step(isChanged ? "new" : "old", () => 1);
    const item = await job.openCase({ id: "case-" + job.id, name: "Changed" });
    await item.ask({ question: "Is it so?", fields: yes });
  },
};

const agent = (name, version = "1.0.0") => defineAgent({
  name, version,
  parameters: [{ name: "REGION", is_secret: false }],
  methods: {
    job_start: {
      fields: name.startsWith("Planned") ? [] : fields,
      async run({ job, fields: { what = "planned", mode = "tell" } }) {
        await job.step("begin", ({ idempotencyKey }) => did("began " + what, idempotencyKey));
        await MODES[mode](job, what);
        return { what };
      },
    },
    job_status: { run: ({ job }) => { did("asked", job.id); return { message: "done" }; } },
    chat: { fields: [{ name: "message", required: true }], run: ({ fields }) => { did("chatted", fields.message); return { message: "done" }; } },
    custom: { tell: { fields: [{ name: "what", required: true }], run: ({ fields }) => { did("counted", fields.what); return { message: "done" }; } } },
  },
});

const talker = defineChat({
  name: "Talker",
  version: "1.0.0",
  reply: ({ message, turn }) => turn.step("model", ({ idempotencyKey }) => {
    did("answered " + message, idempotencyKey);
    return "said " + message;
  }),
});

const hook = (name, types) => ({ name, types, url: process.env.HOOKS + "/" + name, secret: "whsec_" + Buffer.alloc(32, 7).toString("base64") });

export default createServer({
  agents: [agent("Clerk", isChanged ? "1.0.1" : "1.0.0"), agent("Mover"), agent("Mover", "2.0.0"), agent("Planned run"), agent("Planned desk"), agent("Set"), agent("Set desk"), agent("Paused"), agent("Resumed"), talker],
  schedules: ["run", "desk", "paused", "resumed", "paused desk", "resumed desk"].map((id) => ({
    id: id.replace(" ", "-"),
    cron: "@yearly",
    catchUp: "none",
    agent: id === "desk" ? "planned-desk" : "planned-run",
  })),
  maxConcurrentJobs: 100,
  access: {
    signIn: proxyAuth({
      jwks: { keys: [${JSON.stringify(proxy.publicKey.export({ format: "jwk" }))}] },
      ...{ issuer: "https://proxy.example", audience: "the-service", header: "x-person", roles: { "*": "viewer" } },
    }),
  },
  plugins: [
    admin(), mcp({ wait: "1s" }), a2a({ allowPrivate: true }), agUi(),
    events({ timeout: 1, backoff: { initial: 0.02, max: 0.2 }, breaker: { initial: 0.05, max: 0.2 } }),
    webhooks({ webhooks: [hook("ends", ["agent.job.end"]), hook("picky", ["agent.job.error"])], allowPrivate: true }),
  ],
});
`;
