import { countOf } from "../../src/plugins/admin/views/format.ts";
import { type DeskPage, dueOf, urgentFirst } from "./_desk-page.ts";
import { groupBy, type Job } from "./_desk-truth.ts";

// Inbox

/** The question beside the list, which is that of its case. */
export const ASK = { without: [/^<div class="pane"/] };

export const INBOX: DeskPage = {
  path: "/admin/inbox",
  lines: (truth) => {
    const { questions } = truth;
    const people = [...groupBy(questions, ({ question }) => question.assigned_to ?? null)].sort(([a], [b]) =>
      a < b ? -1 : 1,
    );
    const own = people.filter(([name]) => name === truth.reader);
    const others = people.filter(([name]) => name !== truth.reader);
    const tabs = [
      `All ${questions.length}`,
      // The owner's key has no name.
      truth.reader === "owner" ? "" : `Mine ${own[0]?.[1].length ?? 0}`,
      ...others.map(([name, some]) => `${name} ${some.length}`),
    ];
    return [
      ...(questions.length > 0
        ? [`${countOf(questions.length, "open question")}, the most urgent first.`]
        : []),
      ...(people.length > 0 ? [tabs.filter(Boolean).join(" ")] : []),
      ...urgentFirst(truth).map(({ question, name, job_id }) => {
        const job = truth.jobOf(job_id) as Job | undefined;
        const about = [
          name,
          job?.agent_name ?? "",
          question.assigned_to ? `for ${question.assigned_to}` : "",
        ];
        const held = job?.state === "held" ? " job held" : "";
        return `${question.question} ${about.filter(Boolean).join(" · ")}${dueOf(question.deadline)}${held}`;
      }),
    ];
  },
  ...ASK,
};

/** How many questions are answered with one form: those of the same agent, of a question by the same name. */
export function alikePage(n: number): DeskPage {
  const id = `job-${n}-0`;
  return {
    path: `/admin/cases/${id}/alike`,
    refuses: ({ reader, questions }) => {
      if (reader === "exports" || reader === "acme-refunds") return 403;
      return questions.some(({ case_id }) => case_id === id) ? undefined : 404;
    },
    lines: (truth) => {
      const agentOf = (job_id: string) => (truth.jobOf(job_id) as Job | undefined)?.agent_name;
      const alike = truth.questions.filter(({ job_id }) => agentOf(job_id) === agentOf(`job-${n}`));
      return [`Answer ${countOf(alike.length, "question")} together`];
    },
    passing: /^(?!Answer ).*$/,
  };
}
