import type { AskingCase } from "../../../core/runs/questions/open-questions.ts";
import { toDomId } from "../inbox/ask-view.ts";
import type { AdminParts } from "../parts.ts";
import { withQuery } from "../query.ts";
import { pathTo, timePiece } from "../views/pieces.ts";

interface LinksState {
  /** A link that was just made: it is shown only once. */
  readonly created?: { readonly name: string; readonly url: string };
  readonly problem?: string;
}

/** The links of a question, and the form that makes another. */
export async function linksView(
  parts: Pick<AdminParts, "answerLinks" | "clock">,
  item: AskingCase,
  { created, problem = "" }: LinksState = {},
) {
  const now = parts.clock();
  const links = await parts.answerLinks.of(item);
  return {
    domId: toDomId(item.id),
    question: item.question.question,
    action: pathTo("cases", item.id, "links"),
    back: withQuery("/admin/inbox", { question: item.id }),
    created,
    problem,
    isOpen: created !== undefined || problem !== "" || links.length > 0,
    items: links.map(({ id, name, by, until }) => ({
      name,
      by,
      expires: timePiece(new Date(until).toISOString(), now).toString(),
      action: pathTo("cases", item.id, "links", id, "revoke"),
    })),
  };
}
