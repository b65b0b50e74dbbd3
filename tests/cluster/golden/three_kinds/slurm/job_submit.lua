-- Written by `stretto cluster compile` from examples/cluster/three_kinds.toml.
-- Slurm asks this about each job (JobSubmitPlugins=lua). A job's queue and its number of chips name
-- its partitions; what can never start is refused at once, with the reason.

local site = {
  max_chips = 0, max_nodes = 0,
  kinds = {
    {chip = "k40", gres = "gpu", type = "k40"},
    {chip = "v100", gres = "gpu", type = "v100"},
  },
  groups = {
    {name = "single", least = 1, most = 1},
    {name = "multi", least = 2, most = math.huge},
  },
  queues = {
    {name = "urgent", default = false, users = {}, groups = {}, max_chips = 0},
    {name = "normal", default = true, users = {}, groups = {}, max_chips = 0},
  },
  partitions = {
    {name = "urgent.single", queue = "urgent", group = "single", spare = false, nodes = 3, room = {["k40"] = {all = 8, node = 4}, ["v100"] = {all = 8, node = 8}}},
    {name = "urgent.single.spare", queue = "urgent", group = "single", spare = true, nodes = 2, room = {["v100"] = {all = 16, node = 8}}},
    {name = "urgent.multi", queue = "urgent", group = "multi", spare = false, nodes = 3, room = {["v100"] = {all = 24, node = 8}}},
    {name = "normal.single", queue = "normal", group = "single", spare = false, nodes = 2, room = {["k40"] = {all = 8, node = 4}}},
    {name = "normal.single.spare", queue = "normal", group = "single", spare = true, nodes = 3, room = {["v100"] = {all = 24, node = 8}}},
    {name = "normal.multi", queue = "normal", group = "multi", spare = false, nodes = 2, room = {["v100"] = {all = 16, node = 8}}},
    {name = "normal.multi.spare", queue = "normal", group = "multi", spare = true, nodes = 1, room = {["v100"] = {all = 8, node = 8}}},
  },
}

-- "m" or "m, n and o"
local function enumerate(words)
  if #words < 2 then return words[1] or "none" end
  return table.concat(words, ", ", 1, #words - 1) .. " and " .. words[#words]
end

local function contains(list, word)
  for _, each in ipairs(list) do
    if each == word then return true end
  end
  return false
end

local function find(list, name)
  for _, each in ipairs(list) do
    if each.name == name then return each end
  end
end

local function names(list)
  local all = {}
  for _, each in ipairs(list) do all[#all + 1] = "'" .. each.name .. "'" end
  return enumerate(all)
end

local function said(value)
  return value ~= nil and value ~= 0 and value ~= slurm.NO_VAL and value ~= slurm.NO_VAL16
    and value ~= slurm.NO_VAL64
end

local function sizes(group)
  if group.most == math.huge then return group.least .. "+" end
  if group.most == group.least then return tostring(group.least) end
  return group.least .. "-" .. group.most
end

-- Adds what "gres:gpu:v100:2,gpu:1" asks for, `times` over, to `wanted`: chips by kind, and under ""
-- those of any kind. Other resources than the site's chips are not counted. Returns a problem or nil.
local function add_chips(wanted, text, times)
  for part in string.gmatch(text or "", "[^,]+") do
    local item = string.gsub(part, "^gres[:/]", "")
    local count = tonumber(string.match(item, "[:=](%d+)$")) or 1
    item = string.gsub(item, "[:=]%d+$", "")
    local gres, kind = string.match(item, "^([^:]*):?(.*)$")
    local known, chip, types = false, nil, {}
    for _, each in ipairs(site.kinds) do
      if each.gres == gres then
        known = true
        types[#types + 1] = each.type ~= "" and each.type or each.chip
        if kind ~= "" and each.type == kind then chip = each.chip end
      end
    end
    if known then
      if kind ~= "" and not chip then
        return "this site has no " .. gres .. " of type '" .. kind .. "'; it has " .. enumerate(types)
      end
      local key = chip or ""
      wanted[key] = (wanted[key] or 0) + count * times
    end
  end
end

-- Chips by kind, all of them, the most that one node must have, and the number of nodes.
local function request(job)
  local nodes = said(job.min_nodes) and job.min_nodes or 1
  local wanted, per_node = {}, {}
  local problem = add_chips(per_node, job.tres_per_node, 1)
  if not problem and job.tres_per_job and job.tres_per_job ~= "" then
    problem = add_chips(wanted, job.tres_per_job, 1)
  elseif not problem and job.tres_per_node and job.tres_per_node ~= "" then
    problem = add_chips(wanted, job.tres_per_node, nodes)
  elseif not problem then
    local tasks = said(job.num_tasks) and job.num_tasks
      or nodes * (said(job.ntasks_per_node) and job.ntasks_per_node or 1)
    problem = add_chips(wanted, job.tres_per_task, tasks)
    -- --ntasks-per-gpu without chips: Slurm gives the job as many as its tasks need.
    if not problem and next(wanted) == nil and said(job.ntasks_per_tres) then
      problem = add_chips(wanted, "gpu", math.ceil(tasks / job.ntasks_per_tres))
    end
  end
  local per_socket = {}  -- how many sockets they are is the machine's affair
  if not problem then problem = add_chips(per_socket, job.tres_per_socket, 1) end
  if not problem and next(per_socket) then
    problem = "chips per socket are not counted: ask for them per node, per task or per job"
  end
  local chips, most = 0, 0
  for _, count in pairs(wanted) do chips = chips + count end
  for _, count in pairs(per_node) do most = most + count end
  return {wanted = wanted, per_node = per_node, chips = chips, most = most, nodes = nodes}, problem
end

-- Why `partition` can never run the job; nil if it can.
local function misfit(partition, job)
  local all, node = 0, 0
  for _, room in pairs(partition.room) do
    all = all + room.all
    node = math.max(node, room.node)
  end
  for kind, count in pairs(job.wanted) do
    if kind ~= "" then
      local room = partition.room[kind] or {all = 0, node = 0}
      if room.all == 0 then return "its nodes have no " .. kind end
      if count > room.all then
        return "its nodes have " .. room.all .. " chips of kind " .. kind .. ", the job asks for " .. count
      end
      if (job.per_node[kind] or 0) > room.node then
        return "a node has at most " .. room.node .. " chips of kind " .. kind
          .. ", the job asks for " .. job.per_node[kind] .. " per node"
      end
    end
  end
  if job.chips > all then return "its nodes have " .. all .. " chips, the job asks for " .. job.chips end
  if job.most > node then
    return "a node has at most " .. node .. " chips, the job asks for " .. job.most .. " per node"
  end
  if job.nodes > partition.nodes then
    return "it has " .. partition.nodes .. " nodes, the job asks for " .. job.nodes
  end
end

-- The queue that a job names, be it by the name of one of the queue's partitions. The second value is
-- true if it names a partition that is none of this site file's.
local function queue_of(job)
  local text = job.partition
  if text == nil or text == "" then
    for _, queue in ipairs(site.queues) do
      if queue.default then return queue end
    end
  end
  local found
  for word in string.gmatch(text, "[^,]+") do
    local partition = find(site.partitions, word)
    local queue = find(site.queues, partition and partition.queue or word)
    if not queue then return nil, true end
    if found and found ~= queue then return nil, false end
    found = queue
  end
  return found, false
end

-- Sets the job's partitions, or returns a problem.
local function route(job)
  local queue, foreign = queue_of(job)
  if foreign then return nil end  -- Slurm knows whether it exists
  if not queue then return "a job belongs to one queue; there are " .. names(site.queues) end
  local user = job.user_name
  if #queue.users > 0 and not contains(queue.users, user) then
    return "queue '" .. queue.name .. "' is for " .. enumerate(queue.users) .. ", not for "
      .. tostring(user)
  end
  local asked, problem = request(job)
  if problem then return problem end
  local ask = asked.chips .. (asked.chips == 1 and " chip" or " chips")
  if site.max_chips > 0 and asked.chips > site.max_chips then
    return "a job may have " .. site.max_chips .. " chips at most, this one asks for " .. ask
  end
  if queue.max_chips > 0 and asked.chips > queue.max_chips then
    return "queue '" .. queue.name .. "' has " .. queue.max_chips .. " chips at most, this job asks for "
      .. ask
  end
  if site.max_nodes > 0 and asked.nodes > site.max_nodes then
    return "a job may have " .. site.max_nodes .. " nodes at most, this one asks for " .. asked.nodes
  end

  -- A heterogeneous job comes here part by part, and the rule of sizes is about whole jobs: a part
  -- may go wherever it fits.
  local part = said(job.het_job_offset) or job.het_job_offset == 0
  local group
  if not part then
    for _, each in ipairs(site.groups) do
      if asked.chips >= each.least and asked.chips <= each.most then group = each end
    end
    if not group then
      local all = {}
      for _, each in ipairs(site.groups) do all[#all + 1] = "'" .. each.name .. "' (" .. sizes(each) .. ")" end
      return "no group takes jobs of " .. ask .. "; groups and their sizes are " .. enumerate(all)
    end
    if #queue.groups > 0 and not contains(queue.groups, group.name) then
      return "a job of " .. ask .. " belongs to group '" .. group.name .. "', where queue '" .. queue.name
        .. "' has no jobs"
    end
  end

  local fitting, first_problem = {}, nil
  for _, partition in ipairs(site.partitions) do
    if partition.queue == queue.name and (part or partition.group == group.name)
      and not (part and partition.spare) then
      local why = misfit(partition, asked)
      if why then
        first_problem = first_problem or why
      else
        fitting[#fitting + 1] = partition.name
      end
    end
  end
  if #fitting == 0 then
    if part then return "no group of queue '" .. queue.name .. "' can run this part: " .. first_problem end
    return "a job of " .. ask .. " belongs to group '" .. group.name .. "': " .. first_problem
  end
  local by_name = false
  for word in string.gmatch(job.partition or "", "[^,]+") do
    if word ~= queue.name then
      if not contains(fitting, word) then
        return "a job of " .. ask .. " may not run in partition '" .. word .. "': its partitions are "
          .. enumerate(fitting) .. "; leave -p out, or name the queue alone"
      end
      by_name = true
    end
  end
  if by_name then return nil end  -- a choice among those that fit
  job.partition = table.concat(fitting, ",")
end

function slurm_job_submit(job, partitions, uid)
  local problem = route(job)
  if not problem then return slurm.SUCCESS end
  slurm.log_user("%s", problem)
  return slurm.ERROR
end

-- What a job asks for and where it runs belong together, so users cannot change them afterwards, nor
-- what chips are counted by.
function slurm_job_modify(job, record, partitions, uid)
  if uid == 0 then return slurm.SUCCESS end
  for _, key in ipairs({"partition", "tres_per_job", "tres_per_node", "tres_per_task", "tres_per_socket",
                        "min_nodes", "max_nodes", "num_tasks", "ntasks_per_node", "ntasks_per_tres"}) do
    if said(job[key]) and job[key] ~= "" then
      slurm.log_user("%s", "a job's partitions follow from its chips: cancel it and submit it again")
      return slurm.ERROR
    end
  end
  return slurm.SUCCESS
end

return slurm.SUCCESS
