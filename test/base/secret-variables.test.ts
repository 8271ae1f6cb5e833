import { expect, it } from "vitest";
import { takeVariables } from "../../src/core/service/secret-variables.ts";

const secrets = {
  SERVICE_API_KEY: "key",
  SERVICE_PREVIOUS_API_KEY: "former key",
  SERVICE_RSA_PRIVATE_KEY: "pem",
  SERVICE_ACCOUNT_API_KEY: "account key",
  SERVICE_DATABASE_URL: "postgres://user:password@host/name",
};

it("only secrets are removed from the environment when they are read", () => {
  const env = { ...secrets, SERVICE_PORT: "8001", HOME: "/home/ada" };

  const variables = takeVariables(env);

  expect(variables).toEqual({ ...secrets, SERVICE_PORT: "8001", HOME: "/home/ada" });
  expect(env).toEqual({ SERVICE_PORT: "8001", HOME: "/home/ada" });
});

it("a second reader of the environment gets the secrets, and values that were set later", () => {
  const env: Record<string, string | undefined> = { ...secrets };
  takeVariables(env);
  env.SERVICE_API_KEY = "another key";

  const second = takeVariables(env);
  const third = takeVariables(env);

  expect(second).toEqual({ ...secrets, SERVICE_API_KEY: "another key" });
  expect(third).toEqual(second);
  expect(takeVariables({})).toEqual({});
});
