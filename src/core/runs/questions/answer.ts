import {
  type CheckedFields,
  describeProblems,
  type Fields,
  hasFiles,
  readFields,
} from "../../agents/fields.ts";
import { type Actor, nameOf } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import type { MaybePromise } from "../../base/maybe-promise.ts";
import { answerCase } from "../../entities/change-case.ts";
import { ownerOf } from "../../entities/job-files.ts";
import { keepRequest, keptRequest } from "../../entities/keyed-requests.ts";
import type { Unit } from "../../entities/ledger.ts";
import { approveCase } from "../../entities/question-people.ts";
import type { StoredCase } from "../../models/case.ts";
import type { StoredJob } from "../../models/job.ts";
import { isIn } from "../../models/job-state.ts";
import { agreement } from "../../models/question.ts";
import { type Claimed, claimFiles, linkClaimed, whileClaimed } from "../queue/claim-files.ts";
import type { AnswerRequest } from "../runner.ts";
import { asCase, note, type RequestParts } from "../runner-parts.ts";
import { addApproval } from "./approvals.ts";
import { assertAssigned } from "./assert-assigned.ts";
import { whileAsked } from "./awake.ts";

/** Stores the answer to the open question of a job's case, named by id or ref, and tells the run that waits for it. */
export async function answerQuestion(
  parts: RequestParts,
  answer: { jobId: string; caseId: string; request: AnswerRequest },
  actor?: Actor,
): Promise<StoredCase> {
  const { jobs, cases } = parts;
  const { jobId, caseId } = answer;
  await jobs.get(jobId);
  const asked = await cases.ofJob(jobId, caseId);
  if (!asked.question) return storeAnswer(parts, answer, actor);
  return whileAsked(parts, { jobId, caseId: asked.id }, () => storeAnswer(parts, answer, actor));
}

async function storeAnswer(
  parts: RequestParts,
  { jobId, caseId, request }: { jobId: string; caseId: string; request: AnswerRequest },
  actor?: Actor,
): Promise<StoredCase> {
  const by = actor && nameOf(actor);
  const { ledger, cases, runs } = parts;
  const { once } = request;
  for (;;) {
    const seen = await cases.ofJob(jobId, caseId);
    // A schema may take its time: nothing is kept waiting for it.
    const live = liveFields(parts, seen);
    const claimed = await claim(parts, seen, request);
    const store = async (unit: Unit): Promise<StoredCase | undefined> => {
      if (once && (await keptRequest(unit.tx, jobId, once))) return seen;
      const [item, job] = [await unit.tx.get("Case", seen.id), await unit.tx.get("Job", jobId)];
      const question = item?.question;
      if (item && question && job) {
        assertAwaits(item, job, new Date(unit.now));
        const { question_id = question.id, asked_at = question.asked_at } = request;
        if (question.id !== question_id || question.asked_at !== asked_at)
          throw notAwaiting(item, "another question is open");
        if (question.id !== seen.question?.id || liveFields(parts, item) !== live) return undefined;
        if (parts.provesPeople) assertAssigned(item, actor);
        if (verdict?.ok === false) throw invalidAnswer(item, verdict.problems);
      }
      const given = { answer: claimed.fields, message: request.message ?? null };
      const approvals = question?.approvers
        ? addApproval(item!, question, {
            ...{ actor, message: given.message, at: unit.now },
            answer: verdict?.ok ? verdict.stored : given.answer,
            mustBeProven: parts.provesPeople === true,
          })
        : undefined;
      if (approvals && approvals.length < question!.approvers!) {
        const payload = {
          ...given,
          by: approvals.at(-1)!.by,
          agree: approvals.length,
          of: question!.approvers,
        };
        await note(parts, unit, actor, { action: "case.answer", target: asCase(seen.id) });
        const agreed = agreement({ approvals, approvers: question!.approvers! });
        const answered = { case_id: seen.id, question_id: question!.id, agreed };
        if (once) await keepRequest(unit, jobId, once, answered);
        return approveCase(unit, seen.id, { approvals, payload });
      }
      const all = approvals?.map((one) => one.by).join(", ") ?? by;
      const answer = {
        answer: claimed.fields,
        message: request.message,
        ...(all !== undefined && { by: all }),
      };
      if (job && claimed.files.length > 0) {
        const use = { job: ownerOf(job), origin: "answer", caseId: seen.id } as const;
        await linkClaimed(unit, parts.files, claimed, use);
      }
      const next = await answerCase(unit, seen.id, answer);
      await note(parts, unit, actor, { action: "case.answer", target: asCase(seen.id) });
      const place = { case_id: seen.id, question_id: question!.id };
      if (once) await keepRequest(unit, jobId, once, place);
      unit.afterwards((seq) =>
        runs.answered(jobId, { type: "answer", at: unit.now, ...place, ...answer }, seq),
      );
      return next;
    };
    let verdict: CheckedFields | undefined;
    const next = await whileClaimed(parts.files, claimed, async () => {
      verdict = await check(seen, live, claimed.fields);
      return ledger.write(store);
    });
    if (next) return next;
  }
}

/** The files in an answer: uploads, or files of the job that it is about. */
async function claim(
  { files }: RequestParts,
  { question, job_id }: StoredCase,
  { answer, uploader }: AnswerRequest,
): Promise<Claimed> {
  if (!question || !hasFiles(question.fields)) return { fields: answer, files: [] };
  return claimFiles(files, question.fields, answer, {
    ...{ owner: uploader, jobs: [job_id], brings: "stored" },
  });
}

/** The agent's own schema may ask for more than the form can say. */
function liveFields({ runs }: RequestParts, { id, job_id }: StoredCase): Fields | undefined {
  return runs.find(job_id)?.questions.fieldsOf(id);
}

function check(
  { question }: StoredCase,
  live: Fields | undefined,
  answer: Readonly<Record<string, unknown>>,
): MaybePromise<CheckedFields | undefined> {
  return question ? (live ?? readFields(question.fields)).check(answer) : undefined;
}

function assertAwaits(item: StoredCase, job: StoredJob, now: Date): void {
  if (isIn(job, "ended", "stopping")) {
    throw notAwaiting(item, `its job is ${job.status}`);
  }
  const deadline = item.question?.deadline;
  if (deadline && Date.parse(deadline) <= now.getTime())
    throw notAwaiting(item, `its deadline was ${deadline}`);
}

function invalidAnswer(item: StoredCase, problems: Readonly<Record<string, string>>): ServiceError {
  return new ServiceError("invalid_parameters", `The answer to case "${item.id}" is invalid`, {
    detail: `${describeProblems(problems)}.`,
  });
}

function notAwaiting(item: StoredCase, why: string): ServiceError {
  return new ServiceError("invalid_transition", `Case "${item.id}" no longer accepts an answer: ${why}`, {
    detail: `The current status is "${item.status}".`,
  });
}
