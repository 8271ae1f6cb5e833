import type * as v from "valibot";
import {
  AgentMethodParamsSchema,
  AgentMethodSchema,
  AgentMethodsSchema,
} from "../../core/models/agent-method.ts";
import { AgentMethodFieldSchema } from "../../core/models/agent-method-field.ts";
import { AgentResponseSchema } from "../../core/models/agent-response.ts";
import { CaseSchema } from "../../core/models/case.ts";
import { CaseNodeSchema, CaseNodesSchema } from "../../core/models/case-node.ts";
import { CaseNodeUpdateSchema } from "../../core/models/case-node-update.ts";
import { EntityStatusSchema } from "../../core/models/entity-status.ts";
import { ErrorResponseSchema } from "../../core/models/error-response.ts";
import { JobSchema, StopReasonSchema } from "../../core/models/job.ts";
import { JobContextSchema, StartContextSchema } from "../../core/models/job-context.ts";
import { JobInstructionsSchema } from "../../core/models/job-instructions.ts";
import { JobResponseSchema } from "../../core/models/job-response.ts";
import { CaseUpdateRequestSchema, QuestionSchema } from "../../core/models/question.ts";

/** Schemas that the document names; others are inline. */
export const COMPONENTS: Readonly<Record<string, v.GenericSchema>> = {
  AgentMethod: AgentMethodSchema,
  AgentMethodField: AgentMethodFieldSchema,
  AgentMethodParams: AgentMethodParamsSchema,
  AgentMethods: AgentMethodsSchema,
  AgentResponse: AgentResponseSchema,
  Case: CaseSchema,
  CaseNode: CaseNodeSchema,
  CaseNodeUpdate: CaseNodeUpdateSchema,
  CaseNodes: CaseNodesSchema,
  CaseUpdateRequest: CaseUpdateRequestSchema,
  EntityStatus: EntityStatusSchema,
  ErrorResponse: ErrorResponseSchema,
  Job: JobSchema,
  JobContext: JobContextSchema,
  JobInstructions: JobInstructionsSchema,
  JobResponse: JobResponseSchema,
  Question: QuestionSchema,
  StartContext: StartContextSchema,
  StopReason: StopReasonSchema,
};
