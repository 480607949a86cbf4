# The choice of a configuration: see README.md. Sets choice_sources for libtile.
set(choice_sources)
foreach(file ask.c choose.c choose_programs.c choice_file.c write_choices.c
             search/search.c search/search_auto.c search/search_cpu.c search/search_divided.c
             search/search_estimate.c search/search_predict.c search/search_covariance.c search/search_points.c search/search_fit.c search/search_idle.c search/search_others.c
             search/search_kept.c search/search_order.c search/search_rows.c search/search_sizes.c
             search/search_streams.c search/search_programs.c search/search_few_warps.c search/search_names.c
             search/search_tiles.c
             cost/cost.c cost/cost_walk.c cost/cost_scalars.c cost/cost_memory.c cost/cost_cp_async.c cost/cost_cached.c cost/cost_loops.c
             cost/cost_offsets.c cost/cost_waits.c cost/cost_taps.c cost/cost_lines.c cost/cost_spans.c cost/cost_elements.c cost/cost_exchange.c
             cost/cost_gathered.c cost/cost_indexed.c
             cost/cost_product.c cost/cost_registers.c cost/cost_live.c
             estimate/estimate.c estimate/estimate_copies.c estimate/estimate_loops.c estimate/estimate_shares.c estimate/queueing.c
             estimate/roofline.c estimate/device_model.c)
  list(APPEND choice_sources ${CMAKE_CURRENT_LIST_DIR}/${file})
endforeach()
# What is compiled follows the last bits of these sums, which are not to depend on a fused multiply-add.
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/search/search_covariance.c PROPERTIES
  COMPILE_OPTIONS "-ffp-contract=off")

# The models are data; others refer to the H100's, which comes first.
set(models)
foreach(model h100 h200 h100_portable a100 rtx3090 l40s b200 rtx_pro_6000 gb10)
  list(APPEND models ${CMAKE_CURRENT_LIST_DIR}/models/${model}.model)
endforeach()
set(initializers ${CMAKE_BINARY_DIR}/runtime/choice/device_models.inc)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/runtime/choice)
add_custom_command(OUTPUT ${initializers} VERBATIM
  COMMAND awk -f ${CMAKE_CURRENT_LIST_DIR}/estimate/device_models.awk ${CMAKE_CURRENT_LIST_DIR}/estimate/device_model.def ${models} > ${initializers}.new
  COMMAND ${CMAKE_COMMAND} -E rename ${initializers}.new ${initializers}
  DEPENDS ${CMAKE_CURRENT_LIST_DIR}/estimate/device_models.awk ${CMAKE_CURRENT_LIST_DIR}/estimate/device_model.def ${models})
list(APPEND choice_sources ${initializers})
