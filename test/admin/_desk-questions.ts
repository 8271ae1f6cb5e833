import { countOf } from "../../src/core/base/count-of.ts";
import { formatCount } from "../../src/plugins/admin/views/format.ts";
import { type DeskPage, dueOf, ofTurn, pagerLines, urgentFirst } from "./_desk-page.ts";
import { groupBy, type Job, type Question, type Truth } from "./_desk-truth.ts";

// Inbox

/** The question beside the list, which is that of its case. */
export const ASK = { without: [/^<div class="pane"/] };

export const INBOX: DeskPage = {
  path: "/admin/inbox",
  entries: ({ questions }) => questions.length,
  turns: Number.POSITIVE_INFINITY,
  lines: (truth, turn) => {
    const { questions } = truth;
    const people = [...groupBy(questions, ({ question }) => question.assigned_to ?? null)].sort(([a], [b]) =>
      a < b ? -1 : 1,
    );
    const own = people.filter(([name]) => name === truth.reader);
    const others = people.filter(([name]) => name !== truth.reader);
    const tabs = [
      `All ${formatCount(questions.length)}`,
      // The owner's key has no name.
      truth.reader === "owner" ? "" : `Mine ${formatCount(own[0]?.[1].length ?? 0)}`,
      ...others.map(([name, some]) => `${name} ${formatCount(some.length)}`),
    ];
    return [
      ...(questions.length > 0
        ? [`${countOf(questions.length, "open question")}, the most urgent first.`]
        : []),
      ...(people.length > 0 ? [tabs.filter(Boolean).join(" ")] : []),
      ...ofTurn(urgentFirst(truth), turn).map(({ question, name, job_id }) => {
        const job = truth.jobOf(job_id) as Job | undefined;
        const about = [
          name,
          job?.agent_name ?? "",
          question.assigned_to ? `for ${question.assigned_to}` : "",
        ];
        const held = job?.state === "held" ? " job held" : "";
        return `${question.question} ${about.filter(Boolean).join(" · ")}${dueOf(question.deadline)}${held}`;
      }),
      ...pagerLines(questions.length, turn),
    ];
  },
  ...ASK,
};

/** Questions of one form. */
const ALIKE = 100;

/** The forms for equal questions: those of the same agent, of a question by the same name. */
export function alikePage(n: number): DeskPage {
  const id = `job-${n}-0`;
  const jobOf = (truth: Truth, job_id: string) => truth.jobOf(job_id) as Job | undefined;
  const alikeIn = (truth: Truth) => {
    const agent = jobOf(truth, `job-${n}`)?.agent_name;
    const alike = urgentFirst(truth).filter(({ job_id }) => jobOf(truth, job_id)?.agent_name === agent);
    const isFirst = ({ case_id }: Question) => case_id === id;
    return [...alike.filter(isFirst), ...alike.filter((one) => !isFirst(one))];
  };
  return {
    path: `/admin/cases/${id}/alike`,
    refuses: ({ reader, questions }) => {
      if (reader === "exports" || reader === "acme-refunds") return 403;
      return questions.some(({ case_id }) => case_id === id) ? undefined : 404;
    },
    entries: (truth) => alikeIn(truth).length,
    ...{ size: ALIKE, turns: Number.POSITIVE_INFINITY },
    lines: (truth, turn) => {
      const alike = alikeIn(truth);
      const shown = ofTurn(alike, turn, ALIKE);
      const left = alike.length - turn * ALIKE;
      const which = turn === 0 ? "the first" : "the next";
      const some = turn === 0 ? "" : `${which} `;
      const [{ question: first }] = shown as [Question];
      return [
        `Answer ${left > ALIKE ? `${which} ${ALIKE} of ` : some}${countOf(left, "question")} together`,
        ...shown.map(({ question, name, job_id }) => {
          const marks = [
            question.question === first.question ? "" : "asks something else",
            question.assigned_to === first.assigned_to ? "" : `for ${question.assigned_to ?? "anybody"}`,
            jobOf(truth, job_id)?.state === "held" ? "job held" : "",
          ].filter(Boolean);
          const differs = marks.length === 0 ? "" : ` · ${marks.join(", ")}`;
          return `${question.question} ${name}${differs}${dueOf(question.deadline)} Case`;
        }),
      ];
    },
  };
}
