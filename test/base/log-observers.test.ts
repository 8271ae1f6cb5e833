import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { HOOKS, LOGGER } from "../../src/core/service/tokens.ts";
import { greeter } from "../_setup.ts";

it.each([
  [
    "throws",
    () => {
      throw new Error("cannot log");
    },
  ],
  [
    "rejects",
    async () => {
      throw new Error("cannot log");
    },
  ],
])("a log observer that %s is reported once for each line", async (_, observer) => {
  await using server = await testServer({ agents: [greeter] });
  server.service.get(HOOKS).on("log", observer);

  server.service.get(LOGGER).info("hello");
  await new Promise((resolve) => setImmediate(resolve));

  expect(server.logs.filter((line) => line.includes("cannot log"))).toHaveLength(1);
});
