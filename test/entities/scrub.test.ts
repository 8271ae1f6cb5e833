import { describe, expect, it } from "vitest";
import { Redactor } from "../../src/core/base/redactor.ts";
import { Scrub } from "../../src/core/entities/scrub.ts";
import type { RunEntry } from "../../src/core/models/run-entry.ts";

const AT = "2026-01-31T09:30:00.000Z";
const step = (fields: Partial<RunEntry>): RunEntry =>
  ({ at: AT, type: "call", call: "step", position: 0, name: "step", n: 0, ...fields }) as RunEntry;

describe("the entries of a run", () => {
  const secrets = [
    "plain-secret",
    'quo"ted\\secret',
    " spaced secret ",
    "two\nlines of a secret",
    "\u00fcml\u00e4ut-s\u20acret",
  ];
  const forms = (secret: string): string[] => {
    const json = JSON.stringify(secret).slice(1, -1);
    const bytes = Buffer.from(secret);
    const plain = [secret, secret.trim(), json, bytes.toString("hex"), bytes.toString("base64")];
    return [...plain, encodeURIComponent(secret)];
  };

  it.each(secrets)("have none of the forms of %j, wherever it is in them", (secret) => {
    const redactor = new Redactor();
    redactor.add(secret);
    const scrub = new Scrub(redactor);
    for (const form of forms(secret)) {
      for (const given of [
        step({ name: `a ${form} b` }),
        step({ result: form }),
        step({ result: { deep: [{ [form]: `x${form}x` }] } }),
        step({ result: JSON.stringify({ text: secret }) }),
        step({
          error: { name: "Error", message: `failed with ${form}`, stack: `Error: ${form}\n at x` },
        } as never),
        step({ input: { headers: [form] } } as never),
      ]) {
        const { entry, json } = scrub.entry(given);
        expect(json).toBeUndefined();
        expect(JSON.stringify(entry)).toContain("[secret]");
        expect(scrub.entry(entry).json).toBe(JSON.stringify(entry));
      }
    }
  });

  it("that have no secret are as they were, with their JSON", () => {
    const redactor = new Redactor();
    redactor.add("plain-secret");
    const given = step({ result: { text: "plain" } });

    const { entry, json } = new Scrub(redactor).entry(given);

    expect(entry).toBe(given);
    expect(json).toBe(JSON.stringify(given));
  });

  it("that cannot be stored are left to the store, which names what is wrong", () => {
    const redactor = new Redactor();
    redactor.add("plain-secret");
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    const given = step({ position: cycle as never });

    expect(new Scrub(redactor).entry(given)).toEqual({ entry: given });
  });
});
