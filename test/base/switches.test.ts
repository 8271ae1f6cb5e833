import { postgres } from "agent-control-service/postgres";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { greeter } from "../_setup.ts";
import { postForm, signIn } from "../admin/_sign-in.ts";

it.each([
  ["/admin/deliveries", { all: "no" }, "all must be 1"],
  ["/admin/deliveries", { all: "1", action: "dorp" }, "action must be one of retry, drop"],
  ["/admin/sessions", { all: "0" }, "all must be 1"],
  ["/admin/bulk", { kind: "jobs", action: "delete", all: "false" }, "all must be 1"],
])("%s refuses the form %j, and does nothing", async (path, fields, says) => {
  await using server = await testServer({ agents: [greeter] });
  const cookie = await signIn(server);

  const refused = await postForm(server, path, fields, { cookie, accept: "application/json" });

  expect(refused.status).toBe(422);
  expect(await refused.text()).toContain(says);
  const session = await fetch(`${server.url}/admin/jobs`, { headers: { cookie }, redirect: "manual" });
  expect(session.status).toBe(200);
});

it("a switch in the URL of a database is true or false", () => {
  const open = (value: string) => () => postgres({ url: `postgres://x/y?pgbouncer=${value}` });

  expect(open("yes")).toThrow(/"pgbouncer" .* must be true or false/);
  expect(open("true")).not.toThrow();
  expect(open("false")).not.toThrow();
});
