import { expect, it } from "vitest";
import { Redactor } from "../../src/core/base/redactor.ts";

it("overlapping secrets are removed together", () => {
  const redactor = new Redactor();
  redactor.add("abcdefghij");
  redactor.add("ghijklmnop");

  expect(redactor.text("<abcdefghijklmnop>")).toBe("<[secret]>");
});

it("lines of a key file are removed one by one, its frame stays", () => {
  const redactor = new Redactor();
  redactor.add(
    "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nEFAASCBKcwggSjAgEAAoIBAQ\n-----END KEY-----",
  );

  expect(redactor.text("-----BEGIN KEY-----\n  MIIEvQIBADANBgkqhkiG9w0BAQ\n")).toBe(
    "-----BEGIN KEY-----\n  [secret]\n",
  );
});

it("values of jobs are eventually forgotten, those of the service never", () => {
  const redactor = new Redactor();
  redactor.add("kept-for-good");
  redactor.addPassing("kept-for-good");
  for (let n = 0; n <= 20_000; n++) redactor.addPassing(`passing-${n}-`);

  expect(redactor.text("kept-for-good passing-20000- passing-0-")).toBe("[secret] [secret] passing-0-");
});

it("a JSON value is cleaned without breaking its structure", () => {
  const redactor = new Redactor();
  redactor.add('","b":"');

  expect(redactor.json({ a: "", b: "x" })).toEqual({ a: "", b: "x" });
});
