import { hash } from "node:crypto";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { main } from "../../src/cli/main.ts";
import { greeter } from "../_setup.ts";

/** Runs a command as the program does, in this process. */
async function svc(server: TestServer, ...argv: string[]) {
  const out: string[] = [];
  const notes: string[] = [];
  const code = await main(["access", ...argv], {
    ...{ argv: ["access", ...argv], self: [], cwd: server.dataDir, interactive: false, platforms: {} },
    env: { SERVICE_URL: server.url, SERVICE_API_KEY: server.key },
    print: (line) => void out.push(line),
    note: (line) => void notes.push(line),
  });
  return { code, out: out.join("\n"), notes: notes.join("\n") };
}

const statusOf = async (server: TestServer, key: string) => (await server.request("/jobs", { key })).status;

it("svc access makes, lists, rotates and removes keys; the key alone is on standard output", async () => {
  await using server = await testServer({ agents: [greeter] });

  const added = await svc(server, "add", "billing", "--role", "viewer", "--expires", "90d");
  const listed = await svc(server, "list");
  const rotated = await svc(server, "rotate", "billing");
  const both = [await statusOf(server, added.out), await statusOf(server, rotated.out)];
  const removed = await svc(server, "remove", "billing");

  expect(added).toMatchObject({ code: 0, out: expect.stringMatching(/^svck_[0-9a-f]{12}_[\w-]{43}$/) });
  expect(added.notes).toContain('The key of "billing" (viewer, until ');
  expect(listed.out).toMatch(/name +role[\s\S]*billing +viewer +all +all +20/);
  expect(rotated.notes).toContain("The former one works until ");
  expect(both).toEqual([200, 200]);
  expect(removed.out).toBe('The key of "billing" is removed');
  expect(await statusOf(server, rotated.out)).toBe(401);
  expect((await svc(server, "list")).out).toBe("There are no keys except the API key.");
});

it("svc access add names what is wrong", async () => {
  await using server = await testServer({ agents: [greeter] });

  const agent = await svc(server, "add", "billing", "--role", "starter", "--agents", "greeter,nobody");
  const role = await svc(server, "add", "billing", "--role", "boss");

  expect([agent.code, role.code]).toEqual([1, 2]);
  expect(agent.notes).toContain('names the agent "nobody", which does not exist');
  expect(role.notes).toContain("--role");
});

it("svc access declare makes a key that a service with the printed line accepts", async () => {
  await using before = await testServer({ agents: [greeter] });
  const { out, notes } = await svc(before, "declare", "ci", "--role", "operator", "--agents", "greeter");
  const line = JSON.parse(/keys: \[(.*)\]/.exec(notes)![1]!);

  expect(line).toEqual({
    name: "ci",
    role: "operator",
    sha256: hash("sha256", out, "hex"),
    agents: ["greeter"],
  });
  await using server = await testServer({
    agents: [greeter],
    access: { keys: [{ ...line, agents: undefined }] },
  });
  expect(await statusOf(server, out)).toBe(200);
});
