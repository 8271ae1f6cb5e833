import * as v from "valibot";
import type { AgentDefinition } from "../../../core/agents/define-agent.ts";
import type { AgentInstructions } from "../../../core/agents/instructions.ts";
import type { AgentMethodField } from "../../../core/models/agent-method-field.ts";
import { type JobInstructions, JobInstructionsSchema } from "../../../core/models/job-instructions.ts";
import { readFields } from "../forms/fields.ts";

const blank = { type: null, choices: null, default: null, widget: null, required: false } as const;

/** The job's mission. */
export const MISSION_FIELD: AgentMethodField = {
  ...blank,
  name: "mission",
  field_type: "CharField",
  description: "Shown with the job.",
};

/** The limits of a job as form fields. */
export const INSTRUCTION_FIELDS: readonly AgentMethodField[] = [
  {
    ...blank,
    name: "max_cost",
    field_type: "FloatField",
    description: "The job ends before a step would exceed it.",
  },
  { ...blank, name: "max_duration", field_type: "IntegerField", description: "Seconds." },
  { ...blank, name: "max_cases", field_type: "IntegerField", description: null },
  {
    ...blank,
    name: "stop_on_error",
    field_type: "BooleanField",
    description: "End the job when a case fails.",
    default: true,
  },
  {
    ...blank,
    name: "stop_on_warning",
    field_type: "BooleanField",
    description: "End the job at the first warning.",
  },
];

/** The fields, beginning with the limits of an agent. */
export function instructionFieldsOf({ instructions = {} }: AgentDefinition): readonly AgentMethodField[] {
  return INSTRUCTION_FIELDS.map((field) => ({
    ...field,
    default: instructions[field.name as keyof AgentInstructions] ?? field.default,
  }));
}

/** Limits from a form, and problems with them. */
export function readInstructions(typed: URLSearchParams): {
  readonly limits: JobInstructions;
  readonly mission: string;
  readonly problems: Record<string, string>;
} {
  const { mission, ...given } = readFields(typed, [MISSION_FIELD, ...INSTRUCTION_FIELDS]);
  const result = v.safeParse(JobInstructionsSchema, given);
  const problems: Record<string, string> = {};
  for (const issue of result.issues ?? [])
    problems[v.getDotPath(issue) ?? "limits"] = "must be a number of at least 0";
  return {
    limits: result.success ? result.output : v.parse(JobInstructionsSchema, {}),
    mission: typeof mission === "string" ? mission.slice(0, 500).trim() : "",
    problems,
  };
}
