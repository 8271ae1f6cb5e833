import type { Caller } from "../audit/caller.ts";
import { ServiceError } from "../base/errors.ts";
import { seesWholeAgents } from "../entities/in-sight.ts";
import { grants, type Need, rolesWith } from "../models/access.ts";

/** What a route says about its callers. */
export interface RouteNeeds {
  readonly needs: Need;
  readonly narrows?: boolean | "agents";
}

/**
 * Throws `forbidden` unless a caller may call a route. A token of a job has no role: the gate has compared its scope. A
 * caller who sees a part only gets no further than routes that say that they show no more.
 */
export function assertMayCall(caller: Caller, { needs, narrows = false }: RouteNeeds): void {
  if (needs === "nothing" || caller.kind === "token") return;
  demand(caller, needs);
  if (isWideEnough(caller, narrows)) return;
  throw new ServiceError("forbidden", "This is not for callers who see only a part of the service", {
    detail: `${nameRole(caller)} is limited to ${describeSight(caller.sight ?? {})}; this shows or changes more than that. Ask an administrator of the service.`,
  });
}

/** Whether `assertMayCall` lets a caller through: what it may not do is not offered to it. */
export function mayCall(caller: Caller, { needs, narrows = false }: RouteNeeds): boolean {
  if (needs === "nothing") return true;
  return caller.role !== undefined && grants(caller.role, needs) && isWideEnough(caller, narrows);
}

function isWideEnough({ sight }: Caller, narrows: boolean | "agents"): boolean {
  return sight === undefined || (narrows === "agents" ? seesWholeAgents(sight) : narrows);
}

/** Throws `forbidden` unless a caller has a right: for what only some requests to a route need. */
export function demand(caller: Caller, need: Need): void {
  if (caller.role !== undefined && grants(caller.role, need)) return;
  throw new ServiceError("forbidden", `This needs the right "${need}"`, {
    detail: `${nameRole(caller)} does not have it: ${listOf(rolesWith(need))}. Ask an administrator of the service.`,
  });
}

function nameRole({ role }: Caller): string {
  return role === undefined ? "This caller" : `The role ${role}`;
}

function describeSight({ agents, workspace, startedBy, askedOf }: NonNullable<Caller["sight"]>): string {
  const parts = [
    ...(agents ? [`the agents ${agents.join(", ")}`] : []),
    ...(workspace === undefined ? [] : [`the workspace ${workspace}`]),
    ...(startedBy === undefined ? [] : ["what it has started"]),
    ...(askedOf ? ["questions that are assigned to it"] : []),
  ];
  return parts.join(", ");
}

function listOf(roles: readonly string[]): string {
  return roles.length === 1 ? `only the role ${roles[0]} does` : `the roles ${roles.join(", ")} do`;
}
