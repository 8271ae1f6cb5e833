import { defineAgent, proxyAuth } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { startJob, until } from "../runs/_jobs.ts";
import { AUDIENCE, type Said, startIssuer } from "./_issuer.ts";

const fields = [{ name: "approved", field_type: "BooleanField", required: true }] as const;
const ask = (name: string, options: object) =>
  defineAgent({
    name,
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job }) => {
          const item = await job.openCase({ id: `case-${job.id}`, name: "Refund" });
          return item.ask({ question: "Refund 900 EUR?", fields, ...options });
        },
      },
    },
  });
const AGENTS = {
  "four-eyes": ask("Four eyes", { approvers: 2 }),
  finance: ask("Finance", { assignTo: "group:finance" }),
  ada: ask("Ada", { assignTo: "Ada@example.com" }),
};

/** A service with an open question; answers are 200, 403 or 409. */
async function open(agent: keyof typeof AGENTS) {
  const issuer = await startIssuer();
  const roles = { "group:clerks": "operator" } as const;
  const { jwks, issuer: name } = issuer;
  const signIn = proxyAuth({ jwks, issuer: name, audience: AUDIENCE, header: "x-person", roles });
  const server = await testServer({ agents: [AGENTS[agent]], access: { signIn } });
  await startJob(server.service, { id: "j" });
  await until(server.service, "j", ["awaiting"]);
  const send = (
    headers: Record<string, string>,
    path = "/admin/api/cases/case-j/answer",
    key: string | null = null,
  ) =>
    server.request(path, {
      key,
      json: { answer: { approved: true } },
      headers: { accept: "application/json", "sec-fetch-site": "same-origin", ...headers },
    });
  return {
    server,
    send,
    /** Answers as somebody whom the proxy vouches for. */
    as: async ({ groups = [], ...said }: Said & { readonly groups?: readonly string[] }) =>
      (await send({ "x-person": await issuer.sign({ groups: ["clerks", ...groups], ...said }) })).status,
    issuer: name,
    sign: (said: Said) => issuer.sign({ groups: ["clerks"], ...said }),
    /** Comes to a page, and answers nothing. */
    visit: async (said: Said) => {
      const headers = { "x-person": await issuer.sign({ groups: ["clerks"], ...said }) };
      await server.request("/admin/api/inbox", { key: null, headers });
    },
    approvals: async () => {
      const { items } = (await (await server.request("/admin/api/inbox")).json()) as {
        items: { question: { approvals?: { person: string; proven?: string }[] } }[];
      };
      return items[0]?.question.approvals ?? [];
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

const ada = { sub: "ada-1", email: "ada@example.com" };
const eve = { sub: "eve-3", email: "eve@example.com" };
const bob = { sub: "bob-2", email: "bob@example.com" };

describe("a question that two people must answer alike, where people sign in", () => {
  it("is answered by two people", async () => {
    await using at = await open("four-eyes");

    expect([await at.as(ada), await at.as(bob)]).toEqual([200, 200]);
    await until(at.server.service, "j", ["completed"]);
  });

  it("is not answered by one person with two addresses, sessions or groups", async () => {
    await using at = await open("four-eyes");

    const statuses = [
      await at.as(ada),
      await at.as({ ...ada, email: "bob@example.com" }),
      await at.as({ ...ada, groups: ["finance"] }),
      await at.as(ada),
    ];

    expect(statuses).toEqual([200, 409, 409, 409]);
    expect(await at.approvals()).toHaveLength(1);
  });

  it("is answered by two people of the same name", async () => {
    await using at = await open("four-eyes");

    const statuses = [await at.as(ada), await at.as({ ...ada, sub: "ada-2" })];

    expect(statuses).toEqual([200, 200]);
  });

  it("counts neither keys nor links nor tokens nor names that were typed", async () => {
    await using at = await open("four-eyes");
    const { server } = at;
    await at.as(ada);
    const link = (await (
      await server.request("/admin/api/cases/case-j/links", { json: { name: "Bob" } })
    ).json()) as { path: string };
    const token = new URL(link.path, server.url).searchParams.get("token")!;
    const signedIn = await fetch(`${server.url}/admin/session`, {
      method: "POST",
      redirect: "manual",
      headers: { origin: server.url },
      body: new URLSearchParams({ key: server.key, name: "Bob" }),
    });
    const cookie = signedIn.headers.getSetCookie()[0]!.split(";")[0]!;
    const made = (await (
      await server.request("/jobs/j/tokens", { json: { scopes: ["answer"], name: "Bob" } })
    ).json()) as { token: string };

    const byKey = await at.send({}, undefined, server.key);
    const bySession = await at.send({ cookie, origin: server.url });
    const byToken = await at.send({ authorization: `Bearer ${made.token}` }, "/jobs/j/cases/case-j/update");
    const byLink = await fetch(`${server.url}/answer`, {
      method: "POST",
      headers: { accept: "application/json" },
      body: new URLSearchParams({ token, "f.approved": "true" }),
    });

    expect([byKey.status, bySession.status, byToken.status, byLink.status]).toEqual([403, 403, 403, 403]);
    expect(await at.approvals()).toHaveLength(1);
  });
});

describe("a link that was made for a person who has signed in", () => {
  /** Makes a link as a person, and answers with it as a program would. */
  async function byLink(at: Awaited<ReturnType<typeof open>>, maker: string | undefined, name: string) {
    const headers = { "sec-fetch-site": "same-origin", ...(maker !== undefined && { "x-person": maker }) };
    const made = await at.server.request("/admin/api/cases/case-j/links", {
      ...{ headers, json: { name } },
      ...(maker !== undefined && { key: null }),
    });
    const { path } = (await made.json()) as { path: string };
    return async () => {
      const token = new URL(path, at.server.url).searchParams.get("token")!;
      const response = await fetch(`${at.server.url}/answer`, {
        method: "POST",
        headers: { accept: "application/json" },
        body: new URLSearchParams({ token, "f.approved": "true" }),
      });
      return response.status;
    };
  }
  const came = async (at: Awaited<ReturnType<typeof open>>, ...people: (typeof ada)[]) => {
    for (const one of people) await at.visit(one);
    await expect
      .poll(async () => ((await (await at.server.request("/access/people")).json()) as object[]).length)
      .toBe(people.length);
  };

  it("counts as that person, who does not count again", async () => {
    await using at = await open("four-eyes");
    await came(at, ada, bob, eve);
    const answer = await byLink(at, await at.sign(ada), "Bob@example.com");

    const statuses = [await answer(), await at.as(bob)];

    expect(statuses).toEqual([200, 409]);
    expect(await at.approvals()).toMatchObject([{ by: "bob@example.com", proven: at.issuer }]);
    expect(await at.as(eve)).toBe(200);
    await until(at.server.service, "j", ["completed"]);
  });

  it("does not count beside who has made it, nor two links beside each other that one person has made", async () => {
    await using at = await open("four-eyes");
    await came(at, ada, bob, eve);
    const asAda = await at.sign(ada);
    const [forBob, forEve] = [await byLink(at, asAda, bob.email), await byLink(at, asAda, eve.email)];

    const statuses = [await forBob(), await at.as(ada), await forEve()];

    expect(statuses).toEqual([200, 409, 409]);
    expect(await at.approvals()).toHaveLength(1);
  });

  it("does not count where a key has made it, or for a name that nobody has", async () => {
    await using at = await open("four-eyes");
    await came(at, ada, bob);

    const byKey = await byLink(at, undefined, bob.email);
    const forNobody = await byLink(at, await at.sign(ada), "Somebody");

    expect([await byKey(), await forNobody()]).toEqual([403, 403]);
  });

  it("does not work once the person was removed", async () => {
    await using at = await open("finance");
    await came(at, ada, bob);
    const answer = await byLink(at, await at.sign(ada), bob.email);
    const people = (await (await at.server.request("/access/people")).json()) as {
      id: string;
      name: string;
    }[];
    const { id } = people.find(({ name }) => name === bob.email)!;

    await at.server.request(`/access/people/${encodeURIComponent(id)}`, { method: "DELETE" });

    expect(await answer()).toBe(403);
  });
});

describe("a question that is assigned, where people sign in", () => {
  it("to a group is answered by its members only", async () => {
    await using at = await open("finance");

    const other = await at.as({ ...bob, groups: ["sales"] });
    const named = await at.as({ sub: "group:finance", email: undefined });
    const member = await at.as({ ...ada, groups: ["finance"] });

    expect([other, named, member]).toEqual([403, 403, 200]);
  });

  it("to an address is answered by its holder, in any case, and by holders of the API key", async () => {
    await using at = await open("ada");
    await using second = await open("ada");

    expect([await at.as(bob), await at.as(ada)]).toEqual([403, 200]);
    expect((await second.send({}, undefined, second.server.key)).status).toBe(200);
  });
});
