import * as v from "valibot";
import { countOf } from "../../../core/base/count-of.ts";
import { ServiceError } from "../../../core/base/errors.ts";
import type { ControlSystem, OutboxMessage } from "../../../core/delivery/control-system.ts";
import { pageQuery } from "../../../core/http/query.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { button, type Confirm } from "../actions/confirms.ts";
import { adminRoute } from "../admin-route.ts";
import { redirect } from "../answer.ts";
import { DeliveriesSchema } from "../answers/service.ts";
import { flashCookie } from "../flash.ts";
import { isMarked, optionIn } from "../forms/marks.ts";
import { readForm } from "../forms/read-form.ts";
import { pagerOf, toPageOf } from "../lists/page-of.ts";
import type { AdminParts } from "../parts.ts";
import { filterQuery, optionalText, withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import { type Resource, renderPage } from "../respond.ts";
import { formatCount } from "../views/format.ts";
import { html } from "../views/html.ts";
import { pathTo, statusPiece, timePiece } from "../views/pieces.ts";
import { readControlView } from "./control-view.ts";

const QuerySchema = filterQuery({
  ...pageQuery({ max: 100, default: 50 }),
  state: optionalText(v.picklist(["waiting", "dead"])),
});
type Query = v.InferOutput<typeof QuerySchema>;

/** Events waiting for the control system, and dead letters: send again or drop. */
export function deliveryRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      needs: "view",
      page: ["/admin/deliveries", "Deliveries page"],
      api: [
        "/admin/api/deliveries",
        "List events that are not delivered",
        "What waits to be sent to control systems, webhooks and push receivers, and what could not be.",
      ],
      query: QuerySchema,
      answer: "Messages, newest first",
      schema: DeliveriesSchema,
      resource: ({ query }) => deliveriesResource(parts, query),
    }),
    adminRoute({
      method: "POST",
      path: "/admin/deliveries",
      needs: "operate",
      summary: "Send dead letters again, or drop them (form)",
      hidden: true,
      responses: {
        200: { description: "What will be dropped", contentType: "text/html" },
        303: { description: "Redirect to the page" },
      },
      handler: async ({ event, caller }) => {
        const form = await readForm(event);
        const ids = readPicked(form);
        const isDrop = optionIn(form, "action", ["retry", "drop"]) === "drop";
        if (isDrop && !isMarked(form, "sure")) {
          const state = { confirm: await dropConfirm(parts, ids) };
          return renderPage(parts, event, { template: "confirm", state });
        }
        const text = isDrop
          ? `${countOf(await found(parts).drop(ids, caller), "event")} dropped.`
          : `${countOf(await found(parts).retry(ids, caller), "event")} will be sent again.`;
        return redirect("/admin/deliveries", [flashCookie(parts, event, "good", text)]);
      },
    }),
  ];
}

type Picked = readonly string[] | "all";

function readPicked(form: URLSearchParams): Picked {
  const ids = isMarked(form, "all") ? "all" : form.getAll("id");
  if (ids.length > 0) return ids;
  throw new ServiceError("invalid_request", "Nothing is selected", {
    detail: "Tick some events, or select all.",
  });
}

/** What is dropped is gone, so a person is asked first. */
async function dropConfirm(parts: AdminParts, ids: Picked): Promise<Confirm> {
  const count = ids === "all" ? (await found(parts).counts()).dead : ids.length;
  const what = countOf(count, "event");
  const hidden = (name: string, value: string) =>
    html`<input type="hidden" name="${name}" value="${value}">`.toString();
  const fields = ids === "all" ? [hidden("all", "1")] : ids.map((id) => hidden("id", id));
  return {
    title: `Drop ${what}?`,
    subject: "",
    lines: ["Receivers will not get what is dropped. This cannot be undone."],
    fields: [hidden("action", "drop"), ...fields].join(""),
    action: "/admin/deliveries",
    back: "/admin/deliveries",
    buttons: [button(`Drop ${what}`, { name: "sure", value: "1", style: "danger" })],
  };
}

function deliveriesResource(parts: AdminParts, query: Query): Resource {
  const { limit, skip } = query;
  const state = query.state || "dead";
  const read = () => found(parts).list({ state, limit, skip });
  return {
    page: "deliveries",
    fragment: "deliveries",
    json: async () => {
      const { items, total } = await read();
      return toPageOf(items, { total, limit, skip });
    },
    state: async () => {
      const control = found(parts);
      const [{ items, total }, counts, view] = await Promise.all([
        read(),
        control.counts(),
        readControlView(control),
      ]);
      const now = parts.clock();
      return {
        card: { ...view, status: statusPiece(view.status, view.label).toString() },
        tabs: [
          {
            label: "Dead letters",
            count: formatCount(counts.dead),
            current: state === "dead",
            href: "/admin/deliveries",
          },
          {
            label: "Waiting",
            count: formatCount(counts.waiting),
            current: state === "waiting",
            href: "/admin/deliveries?state=waiting",
          },
        ],
        canChange: state === "dead" && total > 0,
        total: formatCount(total),
        rows: items.map((message) => toRow(message, now)),
        ...pagerOf({ limit, skip, total }, (query) => withQuery("/admin/deliveries", { state }, query)),
        empty:
          state === "dead"
            ? { title: "No dead letters.", text: "Events that were given up appear here, to be sent again." }
            : {
                title: "No events are waiting to be sent.",
                text: "What a receiver has not yet accepted appears here.",
              },
      };
    },
  };
}

function toRow(message: OutboxMessage, now: Date) {
  return {
    id: message.id,
    type: message.type,
    typeInParts: html`${message.type.split(/(?<=\.)/).map((part) => html`${part}<wbr>`)}`.toString(),
    target: message.target,
    stream: message.stream,
    streamHref: pathTo("jobs", message.stream),
    attempts: formatCount(message.attempts),
    error: message.error ?? (message.status === null ? "" : `HTTP ${message.status}`),
    created: timePiece(message.created_at, now).toString(),
  };
}

function found(parts: AdminParts): ControlSystem {
  const control = parts.control();
  if (control) return control;
  throw new ServiceError("not_found", "This service sends no events", {
    detail: "Its events plugin is disabled.",
  });
}
