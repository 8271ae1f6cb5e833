import * as v from "valibot";
import { EntityStatusSchema } from "../../models/entity-status.ts";
import { acceptedText, CaseUpdateRequestSchema } from "../../models/question.ts";
import { readGivenKey } from "../idempotency-key.ts";
import { defineRoute, type RouteDefinition } from "../route.ts";
import { uploaderOf } from "../uploads.ts";
import type { MachineParts } from "./parts.ts";
import { CasePathSchema } from "./schemas.ts";

const AnsweredSchema = v.object({
  status: v.literal("success"),
  message: v.string(),
  job_id: v.string(),
  case_id: v.string(),
  case_status: EntityStatusSchema,
});

/** Answering the questions of cases. */
export function caseRoutes({ prefix, seen }: MachineParts): RouteDefinition[] {
  return [
    defineRoute({
      method: "POST",
      path: `${prefix}/jobs/{job_id}/cases/{case_id}/update`,
      auth: "key",
      token: { scope: "answer", job: "job_id" },
      needs: "answer",
      narrows: true,
      summary: "Answer a case's question",
      description:
        "The first answer wins; a later one is refused with 409 and the case's status. With an `Idempotency-Key`, repeating the request answers nothing, also where the case asks something else by then.",
      tag: "Cases",
      params: CasePathSchema,
      body: CaseUpdateRequestSchema,
      responses: { 200: { description: "The answer was accepted", schema: AnsweredSchema } },
      handler: async ({ params, body, event, caller }) => {
        const once = readGivenKey(event, params.case_id, body.answer, body.message ?? null);
        const uploader = uploaderOf(caller);
        const request = { ...body, ...(once && { once }), ...(uploader !== null && { uploader }) };
        const item = await seen(caller).runner.answer(params.job_id, params.case_id, request, caller);
        return {
          status: "success",
          message: acceptedText(item),
          job_id: item.job_id,
          case_id: item.id,
          case_status: item.status,
        };
      },
    }),
  ];
}
