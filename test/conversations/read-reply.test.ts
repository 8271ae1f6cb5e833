import * as v from "valibot";
import { expect, it } from "vitest";
import { readReply } from "../../src/core/conversations/read-reply.ts";
import { AgentMethodFieldSchema } from "../../src/core/models/agent-method-field.ts";
import type { Question } from "../../src/core/models/question.ts";

function replyTo(...fields: object[]) {
  const all = fields.map((field) => v.parse(AgentMethodFieldSchema, field));
  return (text: string) => readReply(text, { question: "?", fields: all } as unknown as Question);
}

it("a reply is read in one pass, whatever blanks it has", () => {
  const read = replyTo({ name: "name" }, { name: "age", field_type: "IntegerField" });
  const blanks = " ".repeat(2000);

  expect(read(`name: Ada\n${blanks}x`)).toBeUndefined();
  expect(read(`name${blanks}x`)).toBeUndefined();
  expect(read(`${blanks}name${blanks}: ${blanks}Ada${blanks}B${blanks}\nage:1`)).toEqual({
    ...{ name: `Ada${blanks}B`, age: 1 },
  });
});

it("a person's yes and no are understood, and nothing that says more or less", () => {
  const read = replyTo({ name: "ok", field_type: "BooleanField" });
  const yes = ["yes", "Yes.", "y", "sure, go ahead", "yes please", "OK, do it!", "I approve", "of course"];
  const no = [
    "no",
    "No!",
    "nope",
    "no, thank you",
    "please don't",
    "don’t do it",
    "not now",
    "no way",
    "rejected",
  ];
  const unclear = [
    "",
    "maybe",
    "yes, but only half",
    "yes and no",
    "please",
    "no problem",
    "not ok",
    "ok no",
  ];

  for (const text of yes) expect(read(text), text).toEqual({ ok: true });
  for (const text of no) expect(read(text), text).toEqual({ ok: false });
  for (const text of [...unclear, "no, go ahead", "don't stop", "do it tomorrow", "yesterday"])
    expect(read(text), text).toBeUndefined();
});

it("choices, numbers and lines are read by their fields", () => {
  const choices = ["express", ["std", "Standard"]];
  const color = replyTo({ name: "way", field_type: "ChoiceField", choices });
  const count = replyTo({ name: "n", field_type: "IntegerField" });
  const form = replyTo({ name: "city", required: true }, { name: "gift", field_type: "BooleanField" });

  expect(color("Express, please.")).toEqual({ way: "express" });
  expect(color("std")).toEqual({ way: "std" });
  expect(color("not express")).toEqual({ way: "not express" });
  expect([count("12"), count("a dozen")]).toEqual([{ n: 12 }, undefined]);
  expect(form("city: Rome\ngift: yes please")).toEqual({ city: "Rome", gift: true });
  expect(form('{"city": "Rome"}')).toEqual({ city: "Rome" });
  expect([form("gift: yes"), form("Rome"), form("city: Rome\ncity: Paris")]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect([replyTo()("ok"), replyTo()("no")]).toEqual([{}, undefined]);
});
