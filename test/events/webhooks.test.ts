import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { events, webhooks } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { createGuardedFetch } from "../../src/core/delivery/guarded-post.ts";
import { isPublicAddress } from "../../src/core/delivery/public-addresses.ts";
import { CONTROL_SYSTEM } from "../../src/core/service/tokens.ts";
import { greeter } from "../_setup.ts";
import { sharedControl } from "./_control.ts";
import { workThrough } from "./_work.ts";

const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const shared = sharedControl();
const quick = () =>
  events({ timeout: 1, backoff: { initial: 0.02, max: 0.2 }, breaker: { initial: 0.05, max: 0.2 } });

async function hooksOf() {
  return (await shared().received()).filter((item) => item.kind === "webhook");
}

it("events reach a webhook in order, signed as specified, also after failures", async () => {
  await shared().obey({ mode: "503", times: 3 });
  const hook = { name: "mine", url: `${shared().url}/webhooks`, secret: SECRET };
  await using server = await testServer({
    agents: [greeter],
    plugins: [quick(), webhooks({ webhooks: [hook], allowPrivate: true })],
  });

  await workThrough(server.service, "job-1");

  await expect.poll(async () => (await hooksOf()).length, { timeout: 5000 }).toBe(5);
  const items = await hooksOf();
  expect(items.map((item) => (item.body as { type: string }).type)).toEqual([
    "agent.job.start.confirmation",
    "agent.case.start",
    "agent.case.update",
    "agent.case.update",
    "agent.job.end",
  ]);
  for (const { headers, body, key } of items) {
    const signed = `${key}.${headers["webhook-timestamp"]}.${JSON.stringify(body)}`;
    const expected = createHmac("sha256", Buffer.alloc(32, 7)).update(signed).digest("base64");
    expect(headers["webhook-signature"]).toBe(`v1,${expected}`);
    expect(headers["webhook-id"]).toBe(key);
  }
});

it("a webhook gets the types that it requested", async () => {
  const hook = {
    name: "ends",
    url: `${shared().url}/webhooks`,
    secret: SECRET,
    types: ["agent.job.end" as const],
  };
  await using server = await testServer({
    agents: [greeter],
    plugins: [quick(), webhooks({ webhooks: [hook], allowPrivate: true })],
  });

  await workThrough(server.service, "job-1");

  await expect.poll(async () => (await hooksOf()).length).toBe(1);
  expect((await hooksOf())[0]!.body).toMatchObject({ type: "agent.job.end", data: { object_type: "job" } });
});

it.each(["cloudevents", "cloudevents-binary"] as const)(
  "a webhook gets events as %s, signed",
  async (format) => {
    const hook = { name: "ce", url: `${shared().url}/webhooks`, secret: SECRET, format };
    await using server = await testServer({
      agents: [greeter],
      plugins: [quick(), webhooks({ webhooks: [hook], allowPrivate: true })],
    });

    await workThrough(server.service, "job-1");

    await expect.poll(async () => (await hooksOf()).length, { timeout: 5000 }).toBe(5);
    for (const { headers, body, key } of await hooksOf()) {
      const isWhole = format === "cloudevents";
      const attributes = isWhole
        ? (body as Record<string, unknown>)
        : Object.fromEntries(
            Object.entries(headers).map(([name, value]) => [name.replace(/^ce-/, ""), value]),
          );
      expect(attributes).toMatchObject({
        specversion: "1.0",
        id: key,
        type: expect.stringMatching(/^agent\./),
      });
      expect(attributes.source).toMatch(/^(\/[\w.%-]+)+$/);
      expect(Date.parse(String(attributes.time))).toBeGreaterThan(0);
      expect(headers["content-type"]).toMatch(
        isWhole ? /^application\/cloudevents\+json/ : /^application\/json$/,
      );
      expect(isWhole ? attributes.data : body).toMatchObject({
        object_type: expect.any(String),
        details: {},
      });
      const signed = `${key}.${headers["webhook-timestamp"]}.${JSON.stringify(body)}`;
      const expected = createHmac("sha256", Buffer.alloc(32, 7)).update(signed).digest("base64");
      expect(headers["webhook-signature"]).toBe(`v1,${expected}`);
    }
  },
);

describe("a webhook to a private address is refused at dispatch", () => {
  const resolve = async () => [{ address: "169.254.169.254", family: 4 }];
  it.each([
    ["written as an address", "http://127.0.0.1:9/x"],
    ["written as an IPv6 address", "http://[::1]:9/x"],
    ["written as a number", "http://2130706433:9/x"],
    ["behind a name", "http://metadata.example.com/x"],
  ])("%s", async (_, url) => {
    const plugin = webhooks({ webhooks: [{ name: "bad", url, secret: SECRET }] }, resolve);
    await using server = await testServer({ agents: [greeter], plugins: [quick(), plugin] });

    await workThrough(server.service, "job-1");

    const control = server.service.get(CONTROL_SYSTEM);
    await expect.poll(() => control.counts()).toMatchObject({ waiting: 0, dead: 5 });
    expect((await control.list({ state: "dead" })).items[0]!.error).toContain("not a public address");
  });
});

it.each([205, 999])("a response %d of a receiver ends the attempt, not the process", async (status) => {
  const receiver = createServer((request, response) => {
    request.resume();
    response.writeHead(status, { "content-length": "2" }).end("ok");
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  const { port } = receiver.address() as AddressInfo;
  const guarded = createGuardedFetch(true);

  const answer = await guarded(`http://127.0.0.1:${port}/`, { method: "POST", body: "{}" }).then(
    (response) => response.status,
    (error: unknown) => error,
  );
  receiver.close();

  expect(status === 205 ? answer : String(answer)).toEqual(
    status === 205 ? 205 : expect.stringContaining("999"),
  );
});

it.each([
  ["127.0.0.1", false],
  ["10.1.2.3", false],
  ["172.31.0.1", false],
  ["192.168.1.1", false],
  ["169.254.169.254", false],
  ["100.100.100.200", false],
  ["0.0.0.0", false],
  ["::1", false],
  ["::ffff:127.0.0.1", false],
  ["::ffff:a9fe:a9fe", false],
  ["fd00:ec2::254", false],
  ["fe80::1", false],
  ["64:ff9b::7f00:1", false],
  ["::ffff:0:127.0.0.1", false],
  ["::ffff:0:7f00:1", false],
  ["not an address", false],
  ["93.184.215.14", true],
  ["2606:2800:21f:cb07:6820:80da:af6b:8b2c", true],
  ["::ffff:93.184.215.14", true],
])("%s is public: %s", (address, expected) => {
  expect(isPublicAddress(address)).toBe(expected);
});

it("a bad secret is refused at the start and not repeated", async () => {
  const hook = { name: "bad", url: "https://hooks.example.com/", secret: "whsec_c2hvcnQ=" };

  await expect(testServer({ agents: [greeter], plugins: [webhooks({ webhooks: [hook] })] })).rejects.toThrow(
    /secret of webhook "bad" must be whsec_(?!.*c2hvcnQ=)/,
  );
});

it("an option of a webhook that is not known is refused at the start, by the name that was meant", async () => {
  const hook = {
    name: "billing",
    url: "https://billing.example.com",
    secret: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
  };
  const start = (given: object) =>
    testServer({ agents: [greeter], plugins: [webhooks({ webhooks: [given as typeof hook] })] });

  await expect(start({ ...hook, type: ["agent.job.end"] })).rejects.toThrow(
    'Webhook "billing": type is not known: did you mean types?',
  );
  await expect(start({ ...hook, allowPrivate: true })).rejects.toThrow(
    'Webhook "billing": allowPrivate is not known here, only name, url, secret, types',
  );
});
