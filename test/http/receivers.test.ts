import { createHmac } from "node:crypto";
import { defineAgent } from "agent-control-service";
import { JOBS, RUNNER, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { readSecret, signedHeaders } from "../../src/plugins/webhooks/sign.ts";

const SECRETS = {
  stripe: "whsec_of-stripe-as-it-is-0123456789",
  github: "secret-of-github-0123456789",
  "standard-webhooks": `whsec_${Buffer.alloc(32, 7).toString("base64")}`,
} as const;
type Signer = keyof typeof SECRETS;
const SIGNERS = Object.keys(SECRETS) as Signer[];

const waiter = defineAgent({
  name: "Waiter",
  version: "1.0.0",
  methods: {
    job_start: {
      run: async ({ job }) => {
        const first = await job.waitFor<{ payload: { n: number } }>("pay", { where: { type: "paid" } });
        const second = await job.waitFor<{ payload: { n: number } }>("pay", { where: { type: "paid" } });
        return [first.data.payload.n, second.data.payload.n];
      },
    },
  },
});

const open = (verify: Signer, more: object = {}) =>
  testServer({ agents: [waiter], receivers: [{ name: "pay", verify, secret: SECRETS[verify] }], ...more });

interface Given {
  readonly id: string;
  readonly payload?: object;
  readonly secret?: string;
  /** Seconds that the sender's clock is behind. */
  readonly late?: number;
}

/** What a sender sends: the bytes, and its signature in headers. */
function signed(verify: Signer, { id, payload = {}, secret = SECRETS[verify], late = 0 }: Given) {
  const body = JSON.stringify({ id, type: "paid", ...payload });
  const time = Math.floor(Date.now() / 1000) - late;
  const hex = (content: string) => createHmac("sha256", secret).update(content).digest("hex");
  const headers: Record<Signer, () => Record<string, string>> = {
    stripe: () => ({
      "stripe-signature": `t=${time},v1=${"0".repeat(64)},v1=${hex(`${time}.${body}`)},v0=x`,
    }),
    github: () => ({
      ...{ "x-hub-signature-256": `sha256=${hex(body)}`, "x-github-event": "paid" },
      "x-github-delivery": id,
    }),
    // As this service signs its own webhooks, which the specification's library verifies.
    "standard-webhooks": () => signedHeaders(id, new Date(time * 1000), body, readSecret(secret, "pay")),
  };
  return { body, headers: headers[verify]() };
}

const send = (server: TestServer, { body, headers }: ReturnType<typeof signed>, name = "pay") =>
  server.request(`/receivers/${name}`, {
    ...{ method: "POST", key: null, body },
    headers: { "content-type": "application/json", ...headers },
  });

const stored = async (server: TestServer) =>
  (await server.service.get(STORE).table("ReceivedEvent").list()).items;

it.each(SIGNERS)(
  "an event that %s signed reaches the job that waits, once, also after a crash",
  async (verify) => {
    await using server = await open(verify);
    const { id: jobId } = await server.service.get(RUNNER).start("waiter", {});
    const first = signed(verify, { id: "evt_1", payload: { n: 1 } });

    expect((await send(server, first)).status).toBe(202);
    await server.crash();
    expect((await send(server, first)).status).toBe(202);
    const again = { ...first, headers: { ...first.headers, "x-github-delivery": "another" } };
    expect((await send(server, again)).status).toBe(202);
    expect(await stored(server)).toHaveLength(1);
    const second = await send(server, signed(verify, { id: "evt_2", payload: { n: 2 } }));

    expect(await second.json()).toEqual({ name: "pay", id: expect.any(String) });
    expect(await server.service.get(RUNNER).ended(jobId, 60_000)).toMatchObject({ result: [1, 2] });
  },
);

it.each(SIGNERS)("without a right signature of %s nothing is stored", async (verify) => {
  await using server = await open(verify);
  const right = signed(verify, { id: "evt_1" });
  const [name] = Object.keys(right.headers).filter((header) => header.includes("signature"));
  const wrong = {
    "another secret": signed(verify, {
      id: "evt_1",
      secret: `whsec_${Buffer.alloc(32, 8).toString("base64")}`,
    }),
    "other bytes": { ...right, body: `${right.body} ` },
    "no signature": { ...right, headers: {} },
    "an empty signature": { ...right, headers: { ...right.headers, [name!]: "" } },
    "half a signature": {
      ...right,
      headers: { ...right.headers, [name!]: right.headers[name!]!.slice(0, -8) },
    },
    ...(verify === "standard-webhooks" && {
      "another id": { ...right, headers: { ...right.headers, "webhook-id": "evt_2" } },
    }),
    ...(verify !== "github" && {
      "an old signature": signed(verify, { id: "evt_1", late: 400 }),
      "a signature of tomorrow": signed(verify, { id: "evt_1", late: -400 }),
    }),
  };

  for (const [what, request] of Object.entries(wrong))
    expect((await send(server, request)).status, what).toBe(401);
  expect((await send(server, right, "nobody")).status).toBe(404);
  expect(await stored(server)).toEqual([]);
  expect(
    (await send(server, signed(verify, { id: "evt_1", late: verify === "github" ? 0 : 290 }))).status,
  ).toBe(202);
});

it("a sender that repeats an event with another count of attempts is not refused", async () => {
  await using server = await open("stripe");

  for (const pending_webhooks of [2, 1])
    expect(
      (await send(server, signed("stripe", { id: "evt_1", payload: { pending_webhooks } }))).status,
    ).toBe(202);
  expect(await stored(server)).toMatchObject([{ data: { payload: { pending_webhooks: 2 } } }]);
});

it("while a secret changes, both are accepted, and both are masked", async () => {
  const secret = [SECRETS.github, "the-next-secret-of-github"];
  await using server = await testServer({
    agents: [waiter],
    receivers: [{ name: "pay", verify: "github", secret }],
  });

  for (const [at, one] of secret.entries()) {
    const given = { id: "x", payload: { at, leaked: one }, secret: one };
    expect((await send(server, signed("github", given))).status).toBe(202);
  }
  const shown = await (await server.request("/events")).text();
  expect(shown).toContain("[secret]");
  expect(shown).not.toMatch(new RegExp(secret.join("|")));
});

it("what is no JSON object, or too long, is refused", async () => {
  await using server = await open("github");
  const of = (body: string) => ({
    body,
    headers: {
      "x-hub-signature-256": `sha256=${createHmac("sha256", SECRETS.github).update(body).digest("hex")}`,
    },
  });

  expect((await send(server, of("{"))).status).toBe(400);
  expect((await send(server, of("[1]"))).status).toBe(400);
  expect((await send(server, of(JSON.stringify("x".repeat(1024 * 1024))))).status).toBe(413);
  expect((await server.service.get(JOBS).list()).total).toBe(0);
});

it.each([
  [[{ name: "a", verify: "nobody", secret: "x".repeat(20) }], /receivers\[0\].*verify/],
  [[{ name: "a", verify: "github", secret: "short" }], /"a".*16 bytes/],
  [[{ name: "a", verify: "github", secret: "x".repeat(20), key: 1 }], /receivers\[0\]: key/],
  [
    [
      { name: "a", verify: "github", secret: "x".repeat(20) },
      { name: "a", verify: "stripe", secret: "x".repeat(20) },
    ],
    /two of them have the name "a"/,
  ],
])("a wrong receiver stops the start: %j", async (receivers, problem) => {
  await expect(testServer({ agents: [waiter], receivers: receivers as never })).rejects.toThrow(problem);
});
