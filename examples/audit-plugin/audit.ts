import { ADMIN, CLOCK, html, type Plugin } from "agent-control-service/plugin";

interface Entry {
  readonly at: string;
  readonly by: string;
  readonly what: string;
  readonly job: string;
}

/** Keeps who changed which job: a page, and a card on the dashboard. */
export function audit({ most = 500 }: { most?: number } = {}): Plugin {
  return {
    name: "audit",
    dependsOn: ["admin"],
    setup({ get, hooks }) {
      const entries: Entry[] = [];
      const clock = get(CLOCK);
      const note = (by: string | undefined, what: string, job: string): void => {
        if (by === undefined) return;
        entries.unshift({ at: clock().toISOString(), by, what, job });
        entries.length = Math.min(entries.length, most);
      };
      hooks.on("job:changed", ({ job, previous, by }) =>
        note(by, `${previous.status} → ${job.status}`, job.id),
      );
      hooks.on("job:deleted", ({ job, by }) => note(by, "deleted", job.id));

      const admin = get(ADMIN);
      admin.addPage({
        path: "audit",
        title: "Audit",
        json: () => ({ items: entries }),
        render: () => html`<div class="panel scroll"><table aria-label="Changes by people"><thead><tr>
          <th scope="col">When</th><th scope="col">Who</th><th scope="col">What</th><th scope="col">Job</th></tr></thead>
          <tbody>${entries.map(
            ({ at, by, what, job }) =>
              html`<tr><td>${at}</td><td>${by}</td><td>${what}</td><td><a href="/admin/jobs/${job}">${job}</a></td></tr>`,
          )}</tbody></table></div>`,
      });
      admin.addCard({
        title: "Audit",
        render: () => {
          const people = new Set(entries.map(({ by }) => by));
          return html`<p>${entries.length} changes by ${people.size} people. <a href="/admin/x/audit">Show them</a></p>`;
        },
      });
    },
  };
}
