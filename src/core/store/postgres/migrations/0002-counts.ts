import type { Migration } from "./migration.ts";

/**
 * The counts of entities by their facets, and no function that commits: each process has its own one, made for its tables
 * (`commit-sql.ts`). Processes of earlier versions cannot write from then on.
 */
export const counts: Migration = {
  number: 2,
  sql: (schema) => `
    create table ${schema}._count (
      name text not null, slot int not null, key text[] collate "C" not null, n bigint not null,
      primary key (name, slot, key)) with (fillfactor = 50);
    drop function ${schema}._commit(bigint, bigint, bigint, text, int, bigint[], boolean[], json, json, json);
    drop function ${schema}._check_ids(json);
  `,
};
