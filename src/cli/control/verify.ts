import { createHmac, timingSafeEqual } from "node:crypto";
import * as v from "valibot";
import { EventTypeSchema } from "../../core/models/event.ts";
import { AgentRegisterEventSchema } from "../../core/models/events/agent-register-event.ts";
import { CaseStartEventSchema } from "../../core/models/events/case-start-event.ts";
import { CaseUpdateEventSchema } from "../../core/models/events/case-update-event.ts";
import { JobFinishedEventSchema } from "../../core/models/events/job-finished-event.ts";
import { JobStartConfirmationEventSchema } from "../../core/models/events/job-start-confirmation-event.ts";
import { JobStatusEventSchema } from "../../core/models/events/job-status-event.ts";
import { ServerRegisterEventSchema } from "../../core/models/events/server-register-event.ts";
import { JsonMapSchema } from "../../core/models/scalars.ts";
import {
  TelemetryCategorySchema,
  TelemetrySeveritySchema,
  TelemetryTypeSchema,
} from "../../core/models/telemetry.ts";

const EventBodySchema = v.object({
  source: JsonMapSchema,
  workspace: v.string(),
  event_type: EventTypeSchema,
  object_type: v.string(),
  details: JsonMapSchema,
});

const TelemetryBodySchema = v.object({
  workspace_id: v.string(),
  agentId: v.string(),
  eventType: TelemetryTypeSchema,
  severity: TelemetrySeveritySchema,
  eventCategory: TelemetryCategorySchema,
  details: JsonMapSchema,
});

/** Schemas of the events that a service sends, by type. */
export const EVENT_SCHEMAS: Readonly<Record<string, v.GenericSchema>> = {
  "server.register": ServerRegisterEventSchema,
  "agent.register": AgentRegisterEventSchema,
  "agent.job.start.confirmation": JobStartConfirmationEventSchema,
  "agent.job.end": JobFinishedEventSchema,
  "agent.job.error": JobFinishedEventSchema,
  "agent.job.status": JobStatusEventSchema,
  "agent.case.start": CaseStartEventSchema,
  "agent.case.update": CaseUpdateEventSchema,
};

/** Problems of an event for a workspace. */
export function verifyEvent(body: unknown, workspace: string): string[] {
  const envelope = v.safeParse(EventBodySchema, body);
  if (!envelope.success) return envelope.issues.map(describe);
  const { event_type: type, source, object_type, details } = envelope.output;
  const problems = envelope.output.workspace === workspace ? [] : [`workspace is not ${workspace}`];
  const schema = EVENT_SCHEMAS[type];
  const result = schema && v.safeParse(schema, { type, source, object_type, details });
  return result && !result.success ? [...problems, ...result.issues.map(describe)] : problems;
}

export function verifyTelemetry(body: unknown): string[] {
  const result = v.safeParse(TelemetryBodySchema, body);
  return result.success ? [] : result.issues.map(describe);
}

/**
 * Problems of a message signed according to the Standard Webhooks specification; `secret` is `whsec_` and
 * base64.
 */
export function verifyWebhook(
  headers: Readonly<Record<string, string | undefined>>,
  text: string,
  secret: string,
  now: number,
): string[] {
  const [id, timestamp, signatures] = ["id", "timestamp", "signature"].map(
    (name) => headers[`webhook-${name}`],
  );
  if (!id || !timestamp || !signatures)
    return ["webhook-id, webhook-timestamp or webhook-signature is missing"];
  if (Math.abs(now / 1000 - Number(timestamp)) > 300) return ["webhook-timestamp is more than 5 minutes off"];
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const expected = createHmac("sha256", key).update(`${id}.${timestamp}.${text}`).digest();
  const matches = signatures.split(" ").some((signature) => {
    const given = Buffer.from(signature.replace(/^v1,/, ""), "base64");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  return matches ? [] : ["webhook-signature does not match"];
}

function describe(issue: v.BaseIssue<unknown>): string {
  return `${v.getDotPath(issue) ?? "body"}: ${issue.message}`;
}
