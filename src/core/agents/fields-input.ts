import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { AgentMethodFieldInput } from "../models/agent-method-field.ts";

/** An object schema of valibot, zod 4, ArkType or another library that follows Standard Schema. */
export type FieldsSchema = StandardSchemaV1<object, unknown>;

/** A method's inputs: an object schema, or a list of form fields. */
export type FieldsInput = FieldsSchema | readonly AgentMethodFieldInput[];

/** The parsed values that a handler gets for its inputs. */
export type FieldValues<F> = F extends StandardSchemaV1
  ? StandardSchemaV1.InferOutput<F>
  : Record<string, unknown>;

/** The values sent by clients, before their schema transforms them. */
export type GivenFields<F> = F extends StandardSchemaV1
  ? StandardSchemaV1.InferInput<F>
  : Record<string, unknown>;
