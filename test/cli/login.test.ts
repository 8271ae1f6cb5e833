// @long
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it, onTestFinished } from "vitest";
import { AUDIT, JOBS, PEOPLE } from "../../src/core/service/tokens.ts";
import { greeter } from "../_setup.ts";
import { start } from "../access/_signed-in.ts";
import { beginSvc, PROCESS_TIME, type Running, svc } from "./_svc.ts";

/** A person with a home of their own, outside of any project. */
async function machine(server: TestServer) {
  const home = await mkdtemp(join(tmpdir(), "svc-home-"));
  onTestFinished(() => rm(home, { recursive: true, force: true }));
  const cwd = await mkdtemp(join(tmpdir(), "svc-project-"));
  onTestFinished(() => rm(cwd, { recursive: true, force: true }));
  const env = { HOME: home, XDG_CONFIG_HOME: join(home, "settings"), SERVICE_URL: server.url };
  const folder = join(env.XDG_CONFIG_HOME, "agent-control-service/logins");
  return {
    folder,
    env,
    run: (...args: string[]) => svc(args, { cwd, env }),
    begin: (...args: string[]) => beginSvc(args, { cwd, env }),
  };
}

const toText = (text: string) => text.replaceAll("&amp;", "&");
const addressIn = (text: string) => toText(/content="0;url=([^"]+)"/.exec(text)?.[1] ?? "");
const formOf = (page: string) => {
  const form = new URLSearchParams();
  for (const [, name, value] of page.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)">/g))
    form.set(name!, toText(value!));
  return form;
};

/** What a person does in a browser that is signed in; gives what the service sends the browser next. */
async function allow(server: TestServer, running: Running, cookie: string) {
  const [, address] = await running.prints(/Sign in at (\S+)/);
  const page = await (await fetch(address!, { headers: { cookie, accept: "text/html" } })).text();
  const [, check] = await running.prints(/The page shows ([\w-]+)\./);
  const headers = {
    ...{ cookie, origin: server.url, accept: "text/html" },
    "content-type": "application/x-www-form-urlencoded",
  };
  const send = () =>
    fetch(`${server.url}/admin/sign-in/program`, {
      ...{ method: "POST", headers, redirect: "manual" },
      body: formOf(page).toString(),
    } as RequestInit);
  return { page, check: check!, form: formOf(page), send };
}

async function cookieWithKey(server: TestServer, key = server.key): Promise<string> {
  const response = await fetch(`${server.url}/admin/session`, {
    ...{ method: "POST", redirect: "manual" },
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ key, name: "Ada" }).toString(),
  } as RequestInit);
  return response.headers.getSetCookie()[0]!.split(";")[0]!;
}

it(
  "a person signs in by the browser, commands act as that person without a key, and signing out ends it",
  async () => {
    await using server = await testServer({ agents: [greeter] });
    const { run, begin, folder } = await machine(server);
    const before = await run("job", "list");

    const login = begin("login");
    const { page, check, send } = await allow(server, login, await cookieWithKey(server));
    const leads = addressIn(await (await send()).text());
    const shown = await (await fetch(leads)).text();
    const done = await login.finished;

    expect(before.stderr).toContain("svc login");
    expect(page).toContain(check);
    expect(leads).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\?code=/);
    expect(shown).toContain("You can close this page");
    expect([done.code, done.stdout]).toEqual([
      0,
      expect.stringMatching(/^Signed in to \S+ as .*Ada.* \(admin\)/),
    ]);
    const [name] = await readdir(folder);
    expect((await stat(join(folder, name!))).mode & 0o777).toBe(0o600);
    expect((await stat(folder)).mode & 0o777).toBe(0o700);

    const started = await run("job", "start", "greeter", "--id", "job-1", "--field", "name=Ada");
    const list = await run("job", "list");
    const backup = await run("access", "list");
    const lines = await server.service.get(AUDIT).list({ limit: 10 });
    const out = await run("logout");
    const after = await run("job", "list");

    expect([started.code, list.code, backup.code]).toEqual([0, 0, 0]);
    expect(list.stdout).toContain("job-1");
    expect(JSON.stringify(lines)).toMatch(
      /session\.begin.*"program":"svc on |"program":"svc on .*session\.begin/,
    );
    expect([out.code, out.stdout.trim()]).toEqual([0, `Signed out of ${server.url}`]);
    expect(await readdir(folder)).toEqual([]);
    expect([after.code, after.stderr]).toEqual([1, expect.stringContaining("svc login")]);
  },
  PROCESS_TIME,
);

it(
  "a code is of no use without the secret of the program, late, or elsewhere, and a sign-in is no cookie",
  async () => {
    let now = Date.now();
    await using server = await testServer({ agents: [greeter], clock: () => new Date(now) });
    const { begin, folder } = await machine(server);
    const login = begin("login");
    const cookie = await cookieWithKey(server);
    const { form, send } = await allow(server, login, cookie);
    const leads = new URL(addressIn(await (await send()).text()));
    const code = leads.searchParams.get("code")!;
    const exchange = async (json: object) =>
      (await server.request("/admin/api/sign-in/program", { key: null, json })).status;

    const wrongState = await fetch(`${leads.origin}/?code=${code}&state=${"x".repeat(22)}`);
    const refused = [
      await exchange({ code, verifier: "another" }),
      await exchange({ code: `${code}x`, verifier: "another" }),
      await exchange({ code: cookie.split("=")[1], verifier: "another" }),
    ];
    const withCode = await server.request("/whoami", { key: `svcs_${code}` });
    const withCookie = await server.request("/whoami", { key: `svcs_${cookie.split("=")[1]}` });
    now += 61_000;
    await fetch(leads);
    const late = await login.finished;
    const fromElsewhere = await fetch(`${server.url}/admin/sign-in/program`, {
      ...{ method: "POST", body: form.toString() },
      headers: {
        ...{ cookie, origin: "https://elsewhere.example", "sec-fetch-site": "cross-site" },
        "content-type": "application/x-www-form-urlencoded",
      },
    });

    expect(wrongState.status).toBe(404);
    expect(refused).toEqual([401, 401, 401]);
    expect([withCode.status, withCookie.status]).toEqual([401, 401]);
    expect([late.code, late.stderr]).toEqual([1, expect.stringContaining("Sign in again: svc login")]);
    expect(fromElsewhere.status).toBe(403);
    await expect(readdir(folder)).rejects.toThrow("ENOENT");
  },
  PROCESS_TIME,
);

it(
  "a person whom a provider vouches for signs in with tokens of the program's own, and is out once removed",
  async () => {
    await using at = await start();
    const { server, provider } = at;
    const { run, begin, folder } = await machine(server);
    const signedIn = await at.as("ada");
    const cookie = signedIn.headers.getSetCookie()[0]!.split(";")[0]!;

    const login = begin("login");
    const { page, send } = await allow(server, login, cookie);
    const leaving = await send();
    const kept = leaving.headers.getSetCookie()[0]!.split(";")[0]!;
    const back = await at.comeBack(await provider.signIn(addressIn(await leaving.text()), "ada"), kept);
    await fetch(addressIn(await back.text()));
    const done = await login.finished;

    expect(page).toContain("ada@example.com");
    expect(back.headers.getSetCookie().join()).not.toContain("svc-admin=");
    expect([done.code, done.stdout]).toEqual([0, expect.stringContaining("as ada@example.com (operator)")]);
    const started = await run("job", "start", "greeter", "--id", "job-1", "--field", "name=Ada");
    expect(started.code).toBe(0);
    const { job_context } = await server.service.get(JOBS).get("job-1");
    expect(job_context.started_by).toBe("ada@example.com");
    const { token } = JSON.parse(await readFile(join(folder, (await readdir(folder))[0]!), "utf8")) as {
      token: string;
    };
    const who = await (await server.request("/whoami", { key: token })).json();
    expect(who).toMatchObject({ name: "ada@example.com", kind: "session", role: "operator" });
    // The browser is signed out, and the program is not.
    const headers = { cookie, origin: server.url };
    await fetch(`${server.url}/admin/session/end`, { method: "POST", headers, redirect: "manual" });
    expect((await run("job", "list")).code).toBe(0);
    expect((await run("access", "list")).code).toBe(1);

    const [person] = await server.service.get(PEOPLE).list();
    await server.service.get(PEOPLE).remove(person!.id, { kind: "key", role: "admin" });
    const after = await run("job", "list");

    expect([after.code, after.stderr]).toEqual([1, expect.stringContaining("was removed from this service")]);
  },
  PROCESS_TIME,
);

it(
  "a one-time link signs in without a browser, once",
  async () => {
    await using server = await testServer({ agents: [greeter] });
    const { run, env } = await machine(server);
    const { stdout } = await svc(["open"], {
      cwd: tmpdir(),
      env: { ...env, SERVICE_API_KEY: server.key },
    });

    const first = await run("login", "--link", stdout.trim());
    const second = await run("login", "--link", stdout.trim());

    expect([first.code, first.stdout]).toEqual([0, expect.stringContaining("(admin)")]);
    expect((await run("job", "list")).code).toBe(0);
    expect([second.code, second.stderr]).toEqual([1, expect.stringContaining("already used or has expired")]);
  },
  PROCESS_TIME,
);

it(
  "a sign-in is sent to no other address, and a key that is named comes first",
  async () => {
    await using server = await testServer({ agents: [greeter] });
    await using other = await testServer({ agents: [greeter] });
    const { run, folder } = await machine(server);
    const link = (await (await server.request("/admin/api/sign-in-links", { json: {} })).json()) as {
      path: string;
    };
    await run("login", "--link", server.url + link.path);
    const [name] = await readdir(folder);
    const file = join(folder, name!);
    const text = await readFile(file, "utf8");
    // As a file that was copied over another one.
    await writeFile(file, text.replace(server.url, other.url));

    const moved = await run("job", "list");
    await writeFile(file, text);
    const elsewhere = await run("job", "list", "--url", other.url);
    const named = await run("job", "list", "--key", "wrong");

    expect([moved.code, elsewhere.code, named.code]).toEqual([1, 1, 1]);
    expect((await run("job", "list")).code).toBe(0);
    expect(named.stderr).toContain("rejected the API key");
  },
  PROCESS_TIME,
);

it(
  "a job is started in the workspace of its key, and the next command is about the same service",
  async () => {
    await using server = await testServer({ agents: [greeter] });
    const made = await server.request("/access", {
      json: { name: "acme", role: "starter", workspace: "acme" },
    });
    const { key } = (await made.json()) as { key: string };
    const { env } = await machine(server);
    const { SERVICE_URL: url, ...elsewhere } = env;
    const run = (...args: string[]) =>
      svc(args, { cwd: env.HOME, env: { ...elsewhere, SERVICE_API_KEY: key } });

    const named = await run("job", "start", "greeter", "--id", "job-1", "--field", "name=Ada", "--url", url);
    const next = /npx (svc .+)/.exec(named.stdout)?.[1] ?? "";
    const watched = await run(...next.split(" ").slice(1));
    const refused = await run(
      "job",
      "start",
      "greeter",
      "--workspace",
      "other",
      "--field",
      "name=Ada",
      "--url",
      url,
    );

    expect([named.code, next]).toEqual([0, `svc job watch job-1 --url ${url}`]);
    expect([watched.code, watched.stdout]).toEqual([0, expect.stringContaining("completed")]);
    expect((await server.service.get(JOBS).get("job-1")).job_context.workspace_id).toBe("acme");
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('workspace "acme"')]);
  },
  PROCESS_TIME,
);
