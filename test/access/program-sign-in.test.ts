import { createHash } from "node:crypto";
import type { TestServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { STORE } from "../../src/core/service/tokens.ts";
import { cookieOf, postForm, signIn } from "../admin/_sign-in.ts";
import { startInstances } from "../instances/_instances.ts";
import { start } from "./_signed-in.ts";

const VERIFIER = "the-secret-of-the-program-0123456789-0123456789";
const FORM = {
  port: "50123",
  challenge: createHash("sha256").update(VERIFIER).digest("base64url"),
  state: "s".repeat(22),
  program: "svc on a machine",
};

const leadIn = async (response: Response) =>
  /content="0;url=([^"]+)"/.exec(await response.text())?.[1]?.replaceAll("&amp;", "&") ?? "";
/** The code that the person's browser brings to the program. */
async function codeFrom(server: TestServer, cookie: string): Promise<string> {
  const lead = await leadIn(await postForm(server, "/admin/sign-in/program", FORM, { cookie }));
  return new URL(lead).searchParams.get("code") ?? "";
}
const exchange = (server: TestServer, code: string) =>
  server.request("/admin/api/sign-in/program", { key: null, json: { code, verifier: VERIFIER } });

describe("a code for a program", () => {
  it("is exchanged once, of many requests that come at the same time to two instances", async () => {
    const [one, two] = await startInstances([{}, {}]);
    const code = await codeFrom(one, await signIn(one));

    const all = await Promise.all([one, two, one, two, one, two].map((at) => exchange(at, code)));
    const later = await exchange(two, code);

    expect(all.map(({ status }) => status).toSorted()).toEqual([200, 401, 401, 401, 401, 401]);
    expect([later.status, await later.json()]).toEqual([
      401,
      expect.objectContaining({ error: "This code was already used" }),
    ]);
    const { token } = (await all.find(({ ok }) => ok)!.json()) as { token: string };
    expect((await two.request("/whoami", { key: token })).status).toBe(200);
  });

  it("of a person whom a provider vouches for is exchanged once", async () => {
    await using at = await start();
    const cookie = cookieOf(await at.as("ada"));
    const leaving = await postForm(at.server, "/admin/sign-in/program", FORM, { cookie });
    const kept = leaving.headers.getSetCookie()[0]!.split(";")[0]!;
    const back = await at.comeBack(await at.provider.signIn(await leadIn(leaving), "ada"), kept);
    const code = new URL(await leadIn(back)).searchParams.get("code") ?? "";

    const first = await exchange(at.server, code);
    const second = await exchange(at.server, code);

    expect([first.status, second.status]).toEqual([200, 401]);
  });

  it("gives nothing once its session was ended", async () => {
    const [server] = await startInstances([{}]);
    const code = await codeFrom(server, await signIn(server));
    const sessions = server.service.get(STORE).table("AdminSession");
    const row = (await sessions.list()).items.find(({ program }) => program !== undefined)!;

    await sessions.remove(row.id);

    expect((await exchange(server, code)).status).toBe(401);
  });
});

it.each(["50123@elsewhere.example", "50123.elsewhere.example", "50123/", "501234", "0", "50123\n", ""])(
  "a program at port %j gets no page and no code",
  async (port) => {
    const [server] = await startInstances([{}]);
    const cookie = await signIn(server);
    const headers = { cookie, accept: "text/html" };

    const page = await fetch(
      `${server.url}/admin/sign-in/program?${new URLSearchParams({ ...FORM, port })}`,
      { headers },
    );
    const sent = await postForm(server, "/admin/sign-in/program", { ...FORM, port }, headers);

    expect([page.status, sent.status]).toEqual([422, 422]);
    expect(await sent.text()).not.toContain("http-equiv");
    const { items } = await server.service.get(STORE).table("AdminSession").list();
    expect(items.filter(({ program }) => program !== undefined)).toEqual([]);
  },
);

it.each([
  "https://elsewhere.example/",
  "//elsewhere.example",
  "/admin/..//elsewhere.example",
  "/admin/%2e%2e//elsewhere.example",
  "/admin/../administrator",
  "/admin\\..\\elsewhere",
  "/admin/\n//elsewhere.example",
  "/adminelsewhere",
  "javascript:alert(1)",
])("a sign-in, a theme and a form of times lead to the admin interface instead of %j", async (to) => {
  const [server] = await startInstances([{}]);
  const cookie = await signIn(server);

  const all = [
    await postForm(server, "/admin/session", { key: server.key, name: "Ada", next: to }),
    await postForm(server, "/admin/theme", { theme: "dark", back: to }, { cookie }),
    await postForm(server, "/admin/times", { form: "ago", back: to }, { cookie }),
  ];

  expect(all.map(({ headers }) => headers.get("location"))).toEqual(["/admin/", "/admin/", "/admin/"]);
});
