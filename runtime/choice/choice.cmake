# The choice of a configuration: see README.md. Sets choice_sources for libtile.
set(choice_sources)
foreach(file choose.c choice_file.c write_choices.c search.c search_auto.c search_cpu.c search_divided.c search_estimate.c search_fit.c search_idle.c search_others.c
             search_kept.c search_rows.c search_streams.c search_names.c search_tiles.c cost.c cost_walk.c cost_scalars.c cost_memory.c cost_cached.c cost_loops.c cost_offsets.c cost_waits.c cost_taps.c cost_lines.c
             cost_exchange.c cost_product.c
             cost_registers.c cost_live.c estimate.c estimate_loops.c estimate_shares.c queueing.c roofline.c device_model.c)
  list(APPEND choice_sources ${CMAKE_CURRENT_LIST_DIR}/${file})
endforeach()

# The models are data; others refer to the H100's, which comes first.
set(models)
foreach(model h100 h200 h100_portable a100 rtx3090 l40s b200 rtx_pro_6000 gb10)
  list(APPEND models ${CMAKE_CURRENT_LIST_DIR}/models/${model}.model)
endforeach()
set(initializers ${CMAKE_BINARY_DIR}/runtime/choice/device_models.inc)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/runtime/choice)
add_custom_command(OUTPUT ${initializers} VERBATIM
  COMMAND awk -f ${CMAKE_CURRENT_LIST_DIR}/device_models.awk ${CMAKE_CURRENT_LIST_DIR}/device_model.def ${models} > ${initializers}.new
  COMMAND ${CMAKE_COMMAND} -E rename ${initializers}.new ${initializers}
  DEPENDS ${CMAKE_CURRENT_LIST_DIR}/device_models.awk ${CMAKE_CURRENT_LIST_DIR}/device_model.def ${models})
list(APPEND choice_sources ${initializers})
