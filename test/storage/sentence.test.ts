import { expect, it } from "vitest";
import { sentenceOf } from "../../src/core/storage/xml.ts";

it("no part of a credential is in what a provider says, wherever a long message is cut off", () => {
  const secret = "0123456789abcdefghij";
  const messages = Array.from({ length: 30 }, (_, at) => `${"x".repeat(275 + at)}${secret} was refused`);

  const said = messages.map((text) => sentenceOf(`<Message>${text}</Message>`, [secret, undefined]));

  expect(said.filter((text) => /[0-9a-j]{3}/.test(text))).toEqual([]);
  expect(said.every((text) => text.length <= 302)).toBe(true);
});
