import { describe, expect, it } from "vitest";
import { withoutNumbers } from "../../src/core/base/numbered-keys.ts";
import { takeVariables } from "../../src/core/service/secret-variables.ts";

const RSA = "SERVICE_RSA_PRIVATE_KEY";
const PREVIOUS = "SERVICE_PREVIOUS_RSA_PRIVATE_KEY";

describe("RSA keys by number", () => {
  it("have the highest number, not the last of the alphabet, as the present one, and all others as former ones", () => {
    const env = { [RSA]: "one", [`${RSA}_2`]: "two", [`${RSA}_10`]: "ten", [PREVIOUS]: "zero", OTHER: "x" };

    expect(withoutNumbers(env)).toEqual({ [RSA]: "ten", [PREVIOUS]: "two\none\nzero", OTHER: "x" });
  });

  it("need no first one", () => {
    const env = { [`${RSA}_3`]: "three" };

    expect(withoutNumbers(env)[RSA]).toBe("three");
    expect(withoutNumbers(env)[PREVIOUS]).toBeUndefined();
  });

  it.each([
    { [RSA]: "one", [PREVIOUS]: "zero" },
    { [RSA]: "one", [`${RSA}_2`]: "" },
    { [RSA]: "one", [`${RSA}_1`]: "x" },
  ])("change nothing where there is none: %o", (env) => {
    expect(withoutNumbers(env)).toBe(env);
  });

  it("leave the environment, as the others do", () => {
    const env = { [RSA]: "one", [`${RSA}_2`]: "two", PATH: "x" };

    expect(takeVariables(env)).toEqual({ [RSA]: "one", [`${RSA}_2`]: "two", PATH: "x" });

    expect(env).toEqual({ PATH: "x" });
  });
});
