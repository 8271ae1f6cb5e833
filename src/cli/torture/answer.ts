import type { AgentMethodField } from "../../core/models/agent-method-field.ts";
import type { Question } from "../../core/models/question.ts";
import { hash } from "./random.ts";

/** An answer that is the same for the same question. */
export function makeAnswer({ question, fields }: Question, jobId: string): Record<string, unknown> {
  const asked = question.replaceAll(jobId, "");
  const needed = fields.filter((field) => field.required || field.default === null);
  return Object.fromEntries(
    needed.map((field) => [field.name, makeValue(field, hash(`${asked}/${field.name}`))]),
  );
}

function makeValue(field: AgentMethodField, choice: number): unknown {
  const choices = (field.choices ?? []).map((one) => (typeof one === "string" ? one : one[0]));
  switch (field.field_type) {
    case "BooleanField":
      return choice % 2 === 0;
    case "IntegerField":
      return choice % 100;
    case "FloatField":
      return (choice % 100) / 10;
    case "ChoiceField":
      return choices[choice % choices.length];
    case "MultipleChoiceField":
      return [choices[choice % choices.length]];
    case "DateField":
      return "2026-01-31";
    case "DateTimeField":
      return "2026-01-31T09:30:00Z";
    case "EmailField":
      return "person@example.org";
    case "JSONField":
      return { answer: choice % 100 };
    case "FileField":
      throw new Error("The agents of svc torture ask for no files");
    case "CharField":
      return `answer ${choice % 100}`;
  }
}
